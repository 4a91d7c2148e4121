"""Mixer-style regressor for multichannel sensor windows."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Args:
    window: int = 16
    channels: int = 5
    dim: int = 24
    horizon: int = 4
    layers: int = 1
    batch: int = 12
    lr: float = 3e-3
    weight_decay: float = 1e-2
    steps: int = 9
    quantiles: tuple = (0.1, 0.5, 0.9)


class MixerBlock(nn.Module):
    def __init__(self, window, dim, expand=2):
        super().__init__()
        self.ln_t = nn.LayerNorm(dim)
        self.time = nn.Sequential(nn.Linear(window, window * expand), nn.GELU(), nn.Linear(window * expand, window))
        self.ln_c = nn.LayerNorm(dim)
        self.chan = nn.Sequential(nn.Linear(dim, dim * expand), nn.GELU(), nn.Linear(dim * expand, dim))

    def forward(self, x):
        x = x + self.time(self.ln_t(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.ln_c(x))


class Forecaster(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.embed = nn.Linear(a.channels, a.dim)
        self.blocks = nn.ModuleList(MixerBlock(a.window, a.dim) for _ in range(a.layers))
        self.head = nn.Linear(a.dim, a.horizon * len(a.quantiles))
        self.nq = len(a.quantiles)

    def forward(self, x):
        scale = x.abs().mean(dim=1, keepdim=True) + 1e-3
        h = self.embed(x / scale)
        for b in self.blocks:
            h = b(h)
        y = self.head(h.mean(dim=1))
        return y.reshape(y.size(0), -1, self.nq) * scale[:, :, 0:1]


def pinball(pred, target, qs):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(qs * err, (qs - 1.0) * err).mean()


def series(a: Args, gen):
    t = torch.arange(a.window + a.horizon, dtype=torch.float32)
    while True:
        phase = torch.rand(a.batch, 1, a.channels, generator=gen) * 6.28
        freq = 0.1 + 0.5 * torch.rand(a.batch, 1, a.channels, generator=gen)
        amp = 0.5 + torch.rand(a.batch, 1, a.channels, generator=gen)
        y = amp * torch.sin(freq * t[None, :, None] + phase)
        y = y + 0.05 * torch.randn(y.shape, generator=gen)
        yield y[:, :a.window], y[:, a.window:, 0]


def run(a: Args):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Forecaster(a).to(dev)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.RAdam(
        [{"params": decay, "weight_decay": a.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=a.lr,
        decoupled_weight_decay=True,
    )
    qs = torch.tensor(a.quantiles).to(dev)
    batches = series(a, torch.Generator().manual_seed(11))
    torch_xla.sync()

    history = []
    for i in range(a.steps):
        x, y = next(batches)
        x, y = x.to(dev), y.to(dev)
        with torch_xla.step():
            opt.zero_grad(set_to_none=True)
            loss = pinball(model(x), y, qs)
            loss.backward()
            opt.step()
        history.append(loss.detach())
    xm.wait_device_ops()
    for i, l in enumerate(history):
        print(f"{i:02d} pinball={l.item():.5f}")


if __name__ == "__main__":
    run(Args())
