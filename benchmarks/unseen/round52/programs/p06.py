"""Bearing vibration anomaly detector: convolutional autoencoder on log spectra.

The training stream is contaminated with a few faulty machines, so the loss is
trimmed: the worst reconstructions of a batch are left out, more of them as the
model becomes trustworthy.  An alarm threshold is tracked along the way.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--bins", type=int, default=64)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--trim", type=float, default=0.3, help="final fraction left out")
    p.add_argument("--monitor-every", type=int, default=5)
    p.add_argument("--alarm-quantile", type=float, default=0.95)
    p.add_argument("--contamination", type=float, default=0.08)
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


class SpectrumStream:
    """Log-magnitude spectra of a rotating shaft with harmonics; faults add sidebands."""

    def __init__(self, bins, contamination, seed):
        self.rng = np.random.default_rng(seed)
        self.bins = bins
        self.contamination = contamination

    def _peaks(self, spec, centre, height, width=1.2):
        grid = np.arange(self.bins)[None, :]
        spec += height[:, None] * np.exp(-((grid - centre[:, None]) ** 2) / (2 * width**2))

    def next(self, n):
        rng = self.rng
        spec = rng.normal(scale=0.05, size=(n, self.bins))
        shaft = rng.uniform(6.0, 8.0, size=n)
        for k in range(1, 6):
            self._peaks(spec, k * shaft, np.full(n, 1.0 / k))
        faulty = rng.random(n) < self.contamination
        for side in (-3.3, 3.3):
            self._peaks(spec, 3 * shaft + side, 0.8 * faulty)
        return torch.from_numpy(spec.astype(np.float32)).unsqueeze(1), faulty


class AutoEncoder(nn.Module):
    def __init__(self, bins, width=12, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.GELU(),
            nn.Flatten(), nn.Linear(2 * width * bins // 4, latent),
        )
        self.expand = nn.Linear(latent, 2 * width * bins // 4)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(2 * width, width, 4, stride=2, padding=1), nn.GELU(),
            nn.ConvTranspose1d(width, 1, 4, stride=2, padding=1),
        )
        self.width = width

    def forward(self, x):
        z = self.encoder(x)
        h = self.expand(z).view(x.shape[0], 2 * self.width, -1)
        return self.decoder(h), z


class TrimmedLoss(nn.Module):
    def __init__(self, final_trim, total_steps):
        super().__init__()
        self.final_trim = final_trim
        self.total_steps = total_steps

    def trim_at(self, step):
        return self.final_trim * min(1.0, step / (0.9 * self.total_steps))

    def forward(self, errors, step):
        keep = max(1, round(errors.shape[0] * (1.0 - self.trim_at(step))))
        inliers, _ = torch.topk(errors, keep, largest=False)
        return inliers.mean()


class AlarmMonitor:
    """Alarm threshold from the batch-normalised errors seen in training."""

    def __init__(self, quantile):
        self.quantile = quantile
        self.scores = []

    def record(self, scores):
        self.scores.append(scores)

    def threshold(self):
        pool = torch.cat(self.scores)
        ordered, _ = torch.sort(pool)
        spread = ordered.std()
        cut = torch.quantile(pool, self.quantile)
        return cut.item(), spread.item()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    stream = SpectrumStream(args.bins, args.contamination, args.seed)
    model = AutoEncoder(args.bins).to(device)
    criterion = TrimmedLoss(args.trim, args.steps)
    monitor = AlarmMonitor(args.alarm_quantile)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    caught, faults = 0, 0
    cut = float("inf")
    for step in range(args.steps):
        x, faulty = stream.next(args.batch)
        x = x.to(device)
        recon, z = model(x)
        errors = (recon - x).square().mean(dim=(1, 2))
        loss = criterion(errors, step) + 1e-4 * z.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        scores = errors.detach() / errors.detach().mean()
        monitor.record(scores)
        torch_xla.sync()

        if (step + 1) % args.monitor_every == 0:
            cut, spread = monitor.threshold()
            flags = scores.cpu().numpy() > cut
            caught += int((flags & faulty).sum())
            faults += int(faulty.sum())
            print(f"{step + 1:3d}  loss {loss.item():.4f}  alarm at {cut:.4f} (sd {spread:.4f})"
                  f"  caught {caught}/{faults}")


if __name__ == "__main__":
    main()
