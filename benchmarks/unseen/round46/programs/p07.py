"""Remaining useful life of turbofan engines, small network, pruned while it trains.

Cubic sparsity schedule after Zhu and Gupta (2017): the masks are refreshed
every few steps, in between the pruned weights are held at zero.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Sensors:
    """Windows of sensor readings with a monotone wear component."""

    def __init__(self, n_engines, sensors, window, seed):
        gen = torch.Generator().manual_seed(seed)
        self.window = window
        self.gen = gen
        self.life = torch.randint(120, 240, (n_engines,), generator=gen)
        t = torch.arange(240.0)
        wear = (t[None] / self.life[:, None]).clamp(max=1.0) ** 2
        mix = torch.randn(n_engines, sensors, generator=gen) * 0.1 + torch.randn(sensors, generator=gen)
        noise = 0.2 * torch.randn(n_engines, sensors, 240, generator=gen)
        self.x = mix[:, :, None] * wear[:, None, :] + noise

    def sample(self, batch):
        e = torch.randint(len(self.life), (batch,), generator=self.gen)
        frac = torch.rand(batch, generator=self.gen)
        end = (self.window + frac * (self.life[e] - self.window).float()).long()
        rows = [self.x[i, :, j - self.window:j] for i, j in zip(e.tolist(), end.tolist())]
        rul = (self.life[e] - end).clamp(max=125).float() / 125.0
        return torch.stack(rows), rul


class MixerBlock(nn.Module):
    def __init__(self, sensors, window, hidden):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(window, hidden), nn.ReLU(), nn.Linear(hidden, window))
        self.chan = nn.Sequential(nn.Linear(sensors, hidden), nn.ReLU(), nn.Linear(hidden, sensors))

    def forward(self, x):
        x = x + self.time(x)
        return x + self.chan(x.transpose(1, 2)).transpose(1, 2)


class RULNet(nn.Module):
    def __init__(self, sensors=10, window=24, hidden=32, depth=2):
        super().__init__()
        self.blocks = nn.Sequential(*[MixerBlock(sensors, window, hidden) for _ in range(depth)])
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(sensors * window, hidden), nn.ReLU(),
                                  nn.Linear(hidden, 1))

    def forward(self, x):
        return self.head(self.blocks(x)).squeeze(-1)


class GradualPruner:
    def __init__(self, model, final=0.9, begin=5, end=45, every=4):
        self.final, self.begin, self.end, self.every = final, begin, end, every
        self.targets = [m for m in model.modules()
                        if isinstance(m, nn.Linear) and m.out_features > 1]
        self.masks = [torch.ones_like(m.weight) for m in self.targets]

    def sparsity(self, step):
        if step < self.begin:
            return 0.0
        t = min(1.0, (step - self.begin) / (self.end - self.begin))
        return self.final * (1.0 - (1.0 - t) ** 3)

    @torch.no_grad()
    def refresh(self, step):
        target = self.sparsity(step)
        for i, layer in enumerate(self.targets):
            mag = layer.weight.abs().flatten()
            k = int(round(target * mag.numel()))
            if k == 0:
                continue
            threshold = torch.topk(mag, k, largest=False).values.max()
            self.masks[i] = (layer.weight.abs() > threshold).to(layer.weight.dtype)

    @torch.no_grad()
    def apply(self):
        for layer, mask in zip(self.targets, self.masks):
            layer.weight.mul_(mask)

    def step(self, step):
        if self.begin <= step <= self.end and (step - self.begin) % self.every == 0:
            self.refresh(step)
        self.apply()

    @torch.no_grad()
    def density(self):
        kept = sum(m.sum() for m in self.masks)
        return (kept / sum(m.numel() for m in self.masks)).item()


def score(pred, target):
    """Asymmetric: late predictions are worse than early ones."""
    d = (pred - target) * 125.0
    return torch.where(d < 0, torch.exp(-d / 13.0) - 1, torch.exp(d / 10.0) - 1).clamp(max=1e3).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--sparsity", type=float, default=0.9)
    args = ap.parse_args()

    torch.manual_seed(33)
    device = torch_xla.device()
    data = Sensors(n_engines=24, sensors=10, window=24, seed=33)
    model = RULNet().to(device)
    pruner = GradualPruner(model, final=args.sparsity)
    opt = torch.optim.RMSprop(model.parameters(), lr=args.lr, alpha=0.95)

    for step in range(args.steps):
        x, rul = data.sample(args.batch)
        x, rul = x.to(device), rul.to(device)
        pred = model(x)
        loss = F.mse_loss(pred, rul)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        pruner.step(step)
        torch_xla.sync()

        if (step + 1) % 20 == 0:
            with torch.no_grad():
                s = score(pred, rul).item()
            print(f"step {step + 1}: mse {loss.item():.4f} score {s:.2f} "
                  f"density {pruner.density():.2f}")


if __name__ == "__main__":
    main()
