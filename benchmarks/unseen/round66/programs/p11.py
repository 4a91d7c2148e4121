"""Multi-property soil regression from VNIR reflectance spectra.

One shared 1-D encoder, four laboratory targets (organic carbon, clay, pH, CEC), trained with gradient surgery
(PCGrad, Yu et al. 2020): the gradient of a property is projected onto the normal plane of every gradient it conflicts with.
"""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

TARGETS = ("organic_carbon", "clay", "ph", "cec")


def reflectance_library(n_samples, n_bands, seed):
    """Mixes of a few absorption features around the water, iron oxide and clay wavelengths."""
    rng = np.random.default_rng(seed)
    wl = np.linspace(400.0, 2500.0, n_bands)
    centres = np.array([520.0, 870.0, 1414.0, 1915.0, 2207.0, 2340.0])
    widths = np.array([60.0, 90.0, 35.0, 45.0, 25.0, 30.0])
    bands = np.exp(-0.5 * ((wl[None] - centres[:, None]) / widths[:, None]) ** 2)
    depth = rng.gamma(2.0, 0.1, size=(n_samples, len(centres)))
    base = 0.25 + 0.2 * rng.random((n_samples, 1)) + 0.1 * (wl[None] - 400.0) / 2100.0
    spectra = base * (1.0 - depth @ bands) + 0.004 * rng.standard_normal((n_samples, n_bands))
    mixing = rng.standard_normal((len(centres), len(TARGETS)))
    lab = depth @ mixing + 0.05 * rng.standard_normal((n_samples, len(TARGETS)))
    lab = (lab - lab.mean(0)) / lab.std(0)
    return spectra.astype(np.float32), lab.astype(np.float32)


def standard_normal_variate(x):
    return (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-6)


class SpectralEncoder(nn.Module):
    def __init__(self, n_bands, width=12, out=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, width, 9, stride=4, padding=4), nn.GELU(),
        )
        self.proj = nn.Linear(width * math.ceil(n_bands / 4), out)

    def forward(self, x):
        h = self.conv(x.unsqueeze(1))
        return torch.tanh(self.proj(h.flatten(1)))


class SoilNet(nn.Module):
    def __init__(self, n_bands):
        super().__init__()
        self.encoder = SpectralEncoder(n_bands)
        self.heads = nn.ModuleDict({t: nn.Linear(32, 1) for t in TARGETS})

    def forward(self, x):
        z = self.encoder(x)
        return {t: head(z).squeeze(-1) for t, head in self.heads.items()}


class PCGrad:
    """Wraps an optimizer; ``backward`` takes the list of per-property losses."""

    def __init__(self, optimizer, shared):
        self.optimizer = optimizer
        self.shared = list(shared)

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        xm.optimizer_step(self.optimizer)

    def _flat_grads(self, objectives):
        flat = []
        for loss in objectives:
            grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
            flat.append(torch.cat([g.reshape(-1) for g in grads]))
        return flat

    def _project(self, grads):
        projected = [g.clone() for g in grads]
        others = list(grads)
        for i, g_i in enumerate(projected):
            random.shuffle(others)
            for g_j in others:
                dot = torch.dot(g_i, g_j)
                g_i = g_i - dot.clamp(max=0.0) / (g_j.pow(2).sum() + 1e-12) * g_j
            projected[i] = g_i
        return torch.stack(projected).mean(0)

    def backward(self, objectives):
        merged = self._project(self._flat_grads(objectives))
        torch.stack(objectives).sum().backward()
        offset = 0
        for p in self.shared:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p)
            offset += n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--bands", type=int, default=96)
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    spectra, lab = reflectance_library(640, args.bands, args.seed)
    spectra = standard_normal_variate(spectra)
    rng = np.random.default_rng(args.seed + 1)

    model = SoilNet(args.bands).to(device)
    adam = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    opt = PCGrad(adam, model.encoder.parameters())
    sched = torch.optim.lr_scheduler.OneCycleLR(adam, 4e-3, total_steps=args.steps + 1)

    for step in range(1, args.steps + 1):
        rows = rng.choice(len(spectra), args.batch, replace=False)
        x = torch.from_numpy(spectra[rows]).to(device)
        y = torch.from_numpy(lab[rows]).to(device)

        opt.zero_grad()
        pred = model(x)
        losses = [nn.functional.mse_loss(pred[t], y[:, k]) for k, t in enumerate(TARGETS)]
        opt.backward(losses)
        opt.step()
        sched.step()
        torch_xla.sync()

        if step % 5 == 0:
            print(f"step {step:3d}  " + "  ".join(f"{t}={l.item():.3f}" for t, l in zip(TARGETS, losses)))


if __name__ == "__main__":
    main()
