"""Wind-tunnel surrogate: drag and lift from profile parameters, several measurement campaigns."""
import io

import numpy as np
import torch
import torch.nn as nn
import torch_xla


def campaign_csv(seed, n=96):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 7))
    y = np.stack([np.sin(x[:, 0]) + 0.3 * x[:, 1] ** 2, x[:, 2] * x[:, 3]], 1)
    buf = io.StringIO()
    np.savetxt(buf, np.concatenate([x, y], 1), delimiter=",", fmt="%.5f")
    buf.seek(0)
    return buf


class Campaign:
    """One campaign's table; 'gain' corrects the balance readings where the lab gave one."""

    def __init__(self, seed, gain=None):
        table = np.loadtxt(campaign_csv(seed), delimiter=",", dtype=np.float32)
        self.x, self.y = table[:, :7], table[:, 7:]
        if gain is not None:
            self.y = self.y * np.asarray(gain)
        self.rng = np.random.default_rng(seed + 100)

    def sample(self, k):
        idx = self.rng.choice(len(self.x), k, replace=False)
        return torch.from_numpy(self.x[idx]), torch.from_numpy(self.y[idx])


class Surrogate(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("freq", torch.randn(7, width // 2))
        self.trunk = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean = nn.Linear(width, 2)
        self.spread = nn.Linear(width, 2)

    def forward(self, x):
        p = x @ self.freq
        h = self.trunk(torch.cat([p.sin(), p.cos()], -1))
        return self.mean(h), nn.functional.softplus(self.spread(h)) + 1e-3


class Fit:
    def __init__(self, device):
        self.device = device
        self.model = Surrogate().to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        self.running = []

    def step(self, x, y):
        mean, std = self.model(x)
        resid = (y - mean) / std
        nll = (0.5 * resid.square() + std.log()).mean()
        self.opt.zero_grad()
        nll.backward()
        self.opt.step()
        self.running.append(nll.detach())

    def report(self, tag):
        print(tag, f"nll {torch.stack([r.float() for r in self.running]).mean().item():.3f}")
        self.running.clear()


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    fit = Fit(device)
    campaigns = {
        "2019-open": Campaign(0),
        "2020-closed": Campaign(1),
        "2021-closed": Campaign(2, gain=[1.02, 0.98]),
    }
    for epoch in range(3):
        for name, c in campaigns.items():
            for _ in range(5):
                x, y = c.sample(24)
                with torch_xla.step():
                    fit.step(x.to(device), y.to(device))
        fit.report(f"epoch {epoch}")


if __name__ == "__main__":
    main()
