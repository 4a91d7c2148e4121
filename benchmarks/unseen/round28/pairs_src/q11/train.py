"""Sequence VAE on short synthetic motion clips."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

DEFAULTS = dict(
    joints=6,
    frames=8,
    hidden=32,
    latent=8,
    batch=16,
    lr=2e-3,
    free_bits=0.05,
    kl_hold=4,
    kl_ramp=20,
    kl_max=0.5,
    steps=10,
)


def make_clips(n, frames, joints, seed=7):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, frames)[None, :, None]
    freq = rng.uniform(0.5, 3.0, size=(n, 1, joints))
    phase = rng.uniform(0, 2 * math.pi, size=(n, 1, joints))
    clips = np.sin(2 * math.pi * freq * t + phase) + 0.05 * rng.normal(size=(n, frames, joints))
    return torch.tensor(clips, dtype=torch.float32)


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Conv1d(cfg["joints"], cfg["hidden"], 3, padding=1)
        self.norm = nn.LayerNorm(cfg["hidden"])
        self.mu = nn.Linear(cfg["hidden"], cfg["latent"])
        self.logvar = nn.Linear(cfg["hidden"], cfg["latent"])

    def forward(self, clip):
        h = F.silu(self.conv(clip.transpose(1, 2))).mean(dim=-1)
        h = self.norm(h)
        return self.mu(h), self.logvar(h).clamp(-6, 4)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.frames, self.joints = cfg["frames"], cfg["joints"]
        self.fc = nn.Linear(cfg["latent"], cfg["hidden"])
        self.out = nn.Linear(cfg["hidden"], cfg["frames"] * cfg["joints"])

    def forward(self, z):
        y = self.out(F.silu(self.fc(z)))
        return y.view(-1, self.frames, self.joints)


class KLWeight:
    """Keeps the KL term out for a while, then ramps it linearly."""

    def __init__(self, hold, ramp, top):
        self.hold, self.ramp, self.top = hold, ramp, top

    def __call__(self, it):
        if it < self.hold:
            return 0.0
        return min(self.top, self.top * (it - self.hold + 1) / self.ramp)


def elbo(clip, recon, mu, logvar, beta, free_bits):
    rec = F.smooth_l1_loss(recon, clip, reduction="none").sum(dim=(1, 2)).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    kl = kl.mean(dim=0).clamp(min=free_bits).sum()
    return rec + beta * kl, rec, kl


def main(cfg):
    torch.manual_seed(3)
    device = torch_xla.device()
    enc, dec = Encoder(cfg).to(device), Decoder(cfg).to(device)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=cfg["lr"], betas=(0.9, 0.98))
    weight = KLWeight(cfg["kl_hold"], cfg["kl_ramp"], cfg["kl_max"])

    clips = make_clips(cfg["batch"] * cfg["steps"], cfg["frames"], cfg["joints"])
    loader = DataLoader(TensorDataset(clips), batch_size=cfg["batch"], drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    enc.train(), dec.train()
    history = []
    for it, (clip,) in enumerate(loader):
        opt.zero_grad(set_to_none=True)
        mu, logvar = enc(clip)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        loss, rec, kl = elbo(clip, dec(z), mu, logvar, weight(it), cfg["free_bits"])
        loss.backward()
        xm.optimizer_step(opt)
        history.append((rec.detach(), kl.detach()))

    torch_xla.sync()
    for it, (rec, kl) in enumerate(history):
        print(f"it {it:3d}  rec {rec.item():.4f}  kl {kl.item():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=DEFAULTS["steps"])
    args = ap.parse_args()
    main({**DEFAULTS, "steps": args.steps})
