"""ECG beat classification from recordings of several hospitals."""
import collections

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

RATE = 100          # common sampling rate
BEAT = 64           # samples in a window
CLASSES = ("N", "V", "S", "F")

Site = collections.namedtuple("Site", "name rate beats gain")
SITES = [Site("north", 100, 96, 1.0), Site("harbour", 100, 96, 0.7),
         Site("hill", 125, 96, 1.2), Site("lake", 100, 96, 0.9)]


def record(site, rng):
    n = int(BEAT * site.rate / RATE)
    t = np.linspace(-1, 1, n, dtype=np.float32)
    labels = rng.integers(0, len(CLASSES), site.beats)
    widths = np.float32([0.03, 0.12, 0.03, 0.07])[labels, None]
    shifts = np.float32([0.0, 0.05, -0.25, -0.1])[labels, None]
    qrs = np.exp(-((t - shifts) / widths) ** 2 / 2)
    twave = np.float32(0.3) * np.exp(-((t - np.float32(0.5)) / np.float32(0.1)) ** 2)
    noise = rng.standard_normal((site.beats, n), dtype=np.float32) * np.float32(0.1)
    return (np.float32(site.gain) * (qrs + twave) + noise).astype(np.float32), labels


def to_common_rate(sig, rate):
    if rate == RATE:
        return sig
    src = np.linspace(0, 1, sig.shape[1])
    dst = np.linspace(0, 1, BEAT)
    return np.stack([np.interp(dst, src, row) for row in sig])


def standardise(sig):
    return (sig - sig.mean(1, keepdims=True)) / (sig.std(1, keepdims=True) + 1e-3)


class BeatNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.c1 = nn.Conv1d(1, c, 7, stride=2, padding=3)
        self.b1 = nn.BatchNorm1d(c)
        self.c2 = nn.Conv1d(c, 2 * c, 5, stride=2, padding=2)
        self.b2 = nn.BatchNorm1d(2 * c)
        self.fc = nn.Linear(4 * c, len(CLASSES))

    def forward(self, x):
        x = x.float().unsqueeze(1)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        return self.fc(torch.cat([x.amax(-1), x.mean(-1)], 1))


def site_batches(site, rng, size):
    sig, lab = record(site, rng)
    sig = standardise(to_common_rate(sig, site.rate))
    for i in range(0, len(sig), size):
        yield torch.from_numpy(sig[i:i + size]), torch.from_numpy(lab[i:i + size])


def main():
    torch.manual_seed(1)
    rng = np.random.default_rng(8)
    device = xm.xla_device()
    net = BeatNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for rnd in range(2):
        for site in SITES:
            for sig, lab in site_batches(site, rng, 16):
                sig, lab = sig.to(device), lab.to(device)
                opt.zero_grad()
                loss = F.cross_entropy(net(sig), lab)
                loss.backward()
                opt.step()
                xm.mark_step()
            print(f"round {rnd} {site.name:8s} loss {loss.item():.4f}",
                  "compiles", met.counter_value("UncachedCompile"))


if __name__ == "__main__":
    main()
