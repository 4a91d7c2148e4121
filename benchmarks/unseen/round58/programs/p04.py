"""Unsupervised anomaly detection on machine telemetry: a dilated-conv autoencoder
with a masked-reconstruction objective, trained with warm restarts (SGDR)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

SEED = 31
CHANNELS, WINDOW = 6, 48
BATCH = 32
CYCLES, STEPS_PER_CYCLE = 7, 5
BASE_LR, MIN_LR = 4e-3, 1e-4


def telemetry(length, rng, anomalies=0):
    t = np.arange(length)
    base = np.stack([np.sin(2 * np.pi * t / p + ph)
                     for p, ph in zip(rng.integers(12, 40, CHANNELS),
                                      rng.uniform(0, 6, CHANNELS))])
    x = base + 0.1 * rng.normal(size=base.shape)
    label = np.zeros(length, dtype=bool)
    for _ in range(anomalies):
        s = int(rng.integers(0, length - 20))
        ch = rng.integers(0, CHANNELS, 2)
        x[ch, s:s + 20] += rng.choice([-1.5, 1.5])
        label[s:s + 20] = True
    return x.astype(np.float32), label


def windows(x, stride):
    starts = range(0, x.shape[1] - WINDOW + 1, stride)
    return torch.from_numpy(np.stack([x[:, s:s + WINDOW] for s in starts]))


class Block(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 3, padding=dilation, dilation=dilation)
        self.norm = nn.GroupNorm(4, cout)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x))) + self.skip(x)


class MaskedAE(nn.Module):
    def __init__(self, width=16, code=8):
        super().__init__()
        self.mask_token = nn.Parameter(torch.zeros(1, CHANNELS, 1))
        self.enc = nn.Sequential(Block(CHANNELS, width, 1), Block(width, width, 2),
                                 nn.Conv1d(width, code, 1))
        self.dec = nn.Sequential(Block(code, width, 1),
                                 nn.Conv1d(width, CHANNELS, 1))

    def forward(self, x, keep=None):
        if keep is not None:
            x = x * keep + self.mask_token * (1 - keep)
        return self.dec(self.enc(x))


def make_optimizer(model, lr, grad_bound=0.5):
    """Spikes in the telemetry give huge gradients, so bound them elementwise."""
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        p.register_hook(lambda g: torch.nan_to_num(g).clamp(-grad_bound, grad_bound))
        (decay if p.ndim > 1 and "mask_token" not in name else no_decay).append(p)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 1e-2},
                              {"params": no_decay, "weight_decay": 0.0}], lr=lr)


def cosine(step, total, hi, lo):
    return lo + 0.5 * (hi - lo) * (1 + math.cos(math.pi * step / total))


def span_mask(batch, rng, width=8):
    keep = np.ones((batch, 1, WINDOW), dtype=np.float32)
    for row in keep:
        s = int(rng.integers(0, WINDOW - width))
        row[:, s:s + width] = 0.0
    return torch.from_numpy(keep)


def endless(loader):
    while True:
        for (x,) in loader:
            yield x


@torch.no_grad()
def anomaly_scores(model, data, device):
    model.eval()
    out = []
    for i in range(0, len(data) - BATCH + 1, BATCH):
        x = data[i:i + BATCH].to(device)
        err = (model(x) - x).pow(2).mean(1)
        out.append(err.amax(1).cpu())
    model.train()
    return torch.cat(out)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    normal, _ = telemetry(1600, np.random.default_rng(1))
    test, label = telemetry(1024 + WINDOW, np.random.default_rng(1), anomalies=6)
    loader = DataLoader(TensorDataset(windows(normal, 3)), BATCH, shuffle=True, drop_last=True)
    stream = endless(loader)
    test_windows = windows(test, 16)
    test_label = np.array([label[s:s + WINDOW].any()
                           for s in range(0, len(label) - WINDOW + 1, 16)])

    model = MaskedAE().to(device).train()
    for cycle in range(CYCLES):
        peak = BASE_LR * 0.85 ** cycle
        opt = make_optimizer(model, peak)
        total = torch.zeros((), device=device)
        for i in range(STEPS_PER_CYCLE):
            for group in opt.param_groups:
                group["lr"] = cosine(i, STEPS_PER_CYCLE, peak, MIN_LR)
            x = next(stream).to(device)
            keep = span_mask(BATCH, rng).to(device)
            recon = model(x, keep)
            err = (recon - x).abs()
            loss = (err * (1 - keep)).sum() / ((1 - keep).sum() * CHANNELS) + 0.3 * err.mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
            torch_xla.sync()
        print(f"cycle {cycle} peak {peak:.4f} loss {total.item() / STEPS_PER_CYCLE:.4f}")

    s = anomaly_scores(model, test_windows, device).numpy()
    y = test_label[:len(s)]
    print(f"score normal {s[~y].mean():.3f}  anomalous {s[y].mean():.3f}")


if __name__ == "__main__":
    main()
