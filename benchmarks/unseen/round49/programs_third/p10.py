"""Calibration transfer for NIR spectra: adapt a network fitted on the old
spectrometer to the new instrument with AdaLoRA, few labelled samples."""
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, get_peft_model

BANDS = 48
TARGETS = ("protein", "moisture", "oil")
BATCH = 16
EPOCHS = 6


class Spectra(torch.utils.data.Dataset):
    """Mixtures of three absorption profiles; the new instrument is shifted and tilted."""

    def __init__(self, n, seed, shift=0.0, tilt=0.0):
        rng = np.random.default_rng(seed)
        self.y = rng.dirichlet(np.ones(len(TARGETS) + 1), size=n)[:, :-1].astype(np.float32)
        grid = np.linspace(0, 1, BANDS)
        peaks = ((0.2, 0.7), (0.35, 0.55), (0.5, 0.85))
        profiles = np.stack([sum(np.exp(-((grid - p - shift) ** 2) / 0.005) for p in ps) for ps in peaks])
        scatter = rng.normal(1.0, 0.05, size=(n, 1))
        x = scatter * (self.y @ profiles) + tilt * grid + 0.02 * rng.normal(size=(n, BANDS))
        self.x = ((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.value = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.value(h) * torch.sigmoid(self.gate(h))


class SpectraNet(nn.Module):
    def __init__(self, dim=32, depth=2):
        super().__init__()
        self.stem = nn.Linear(BANDS, dim)
        self.blocks = nn.ModuleList(GatedBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, len(TARGETS))

    def forward(self, x):
        h = F.gelu(self.stem(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def fit_old_instrument(steps=150):
    """Stands in for the checkpoint of the old calibration."""
    net = SpectraNet()
    data = Spectra(256, seed=0)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()
    return net


@torch.no_grad()
def rmse(model, x, y):
    model.eval()
    out = (model(x) - y).square().mean(0).sqrt()
    xm.mark_step()
    model.train()
    return out.cpu().tolist()


def main():
    torch.manual_seed(62)
    device = torch_xla.device()

    loader = torch.utils.data.DataLoader(
        Spectra(112, seed=1, shift=0.04, tilt=0.6), batch_size=BATCH, shuffle=True, drop_last=True
    )
    held_out = Spectra(64, seed=2, shift=0.04, tilt=0.6)
    test_x, test_y = torch.from_numpy(held_out.x).to(device), torch.from_numpy(held_out.y).to(device)

    config = AdaLoraConfig(
        init_r=10,
        target_r=3,
        lora_alpha=16,
        lora_dropout=0.0,
        tinit=6,
        tfinal=6,
        total_step=EPOCHS * len(loader),
        target_modules=["value", "gate"],
    )
    model = get_peft_model(fit_old_instrument(), config).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0)

    global_step = 0
    for epoch in range(EPOCHS):
        running = torch.zeros((), device=device)
        for x, y in loader:
            global_step += 1
            x, y = x.to(device), y.to(device)
            loss = F.smooth_l1_loss(model(x), y, beta=0.1)
            loss.backward()
            optimizer.step()
            model.base_model.update_and_allocate(global_step)
            optimizer.zero_grad()
            running += loss.detach()
            xm.mark_step()
        errors = "  ".join(f"{n} {e:.3f}" for n, e in zip(TARGETS, rmse(model, test_x, test_y)))
        print(f"epoch {epoch}  loss {running.item() / len(loader):.4f}  rmse {errors}")


if __name__ == "__main__":
    main()
