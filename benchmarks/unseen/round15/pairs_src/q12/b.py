"""Quantitative structure-property model on molecular fingerprints."""
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.debug.metrics as met


@dataclasses.dataclass(frozen=True)
class Recipe:
    bits: int = 128
    hidden: tuple = (48, 32, 16)
    targets: int = 3
    lr: float = 1.5e-3
    decay: float = 1e-2
    rows: int = 24
    steps: int = 40


class Fingerprints:
    """Sparse binary vectors whose properties depend on substructures being present together."""

    def __init__(self, r, seed=6):
        self.r = r
        self.g = torch.Generator().manual_seed(seed)
        self.pairs = torch.randint(0, r.bits, (r.targets, 10, 2), generator=self.g)
        self.w = torch.randn(r.targets, 10, generator=self.g)

    def draw(self):
        x = (torch.rand(self.r.rows, self.r.bits, generator=self.g) < 0.25).float()
        both = x[:, self.pairs[..., 0]] * x[:, self.pairs[..., 1]]
        y = (both * self.w).sum(-1)
        missing = torch.rand(y.shape, generator=self.g) < 0.2
        return x, y, (~missing).float()


class PropertyNet(nn.Module):
    def __init__(self, r):
        super().__init__()
        widths = (r.bits,) + r.hidden
        self.hidden = nn.ModuleList(nn.Linear(i, o) for i, o in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(o) for o in widths[1:])
        self.mean = nn.Linear(widths[-1], r.targets)
        self.logvar = nn.Linear(widths[-1], r.targets)

    def forward(self, x):
        for lin, norm in zip(self.hidden, self.norms):
            x = F.mish(norm(lin(x)))
        return self.mean(x), self.logvar(x).clamp(-4, 4)


def masked_nll(mean, logvar, y, present):
    nll = 0.5 * (logvar + (y - mean) ** 2 * torch.exp(-logvar))
    return (nll * present).sum() / present.sum().clamp(min=1.0)


def make_optimizer(net, r):
    return torch.optim.AdamW(net.parameters(), lr=r.lr, betas=(0.9, 0.98), weight_decay=r.decay)


def fit(r=Recipe()):
    torch.manual_seed(12)
    device = torch_xla.device()
    source = Fingerprints(r)
    net = PropertyNet(r).to(device)
    opt = make_optimizer(net, r)
    for n in range(1, r.steps + 1):
        with torch_xla.step():
            x, y, present = (t.to(device) for t in source.draw())
            loss = masked_nll(*net(x), y, present)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if n % 20 == 0:
            print("step", n, "nll", round(loss.item(), 4), "compiles", met.counter_value("UncachedCompile"))
    return net


if __name__ == "__main__":
    fit()
