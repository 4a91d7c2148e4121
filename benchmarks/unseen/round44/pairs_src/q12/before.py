"""Probabilistic substation-load forecasting: reversible instance norm + dilated TCN + pinball loss.

usage: before.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

QUANTILES = (0.1, 0.5, 0.9)
CONTEXT, HORIZON, SERIES, WIDTH = 24, 6, 4, 6


class RevIN(nn.Module):
    """Per-window normalisation of each series; undone on the forecast."""

    def __init__(self, n_series, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(n_series, 1))
        self.shift = nn.Parameter(torch.zeros(n_series, 1))

    def norm(self, x):
        mean = x.mean(dim=-1, keepdim=True).detach()
        std = torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / std * self.scale + self.shift, (mean, std)

    def denorm(self, y, stats):
        mean, std = stats
        y = (y - self.shift.unsqueeze(-1)) / (self.scale.unsqueeze(-1) + self.eps)
        return y * std.unsqueeze(-1) + mean.unsqueeze(-1)


class CausalBlock(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c_in, 2 * c_out, 3, dilation=dilation)
        self.skip = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x):
        h = self.conv(F.pad(x, (self.pad, 0)))
        a, b = h.chunk(2, dim=1)
        return torch.tanh(a) * torch.sigmoid(b) + self.skip(x)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.revin = RevIN(SERIES)
        self.blocks = nn.Sequential(
            CausalBlock(SERIES, WIDTH, 1),
            CausalBlock(WIDTH, WIDTH, 2),
            CausalBlock(WIDTH, WIDTH, 4),
        )
        self.head = nn.Linear(WIDTH, SERIES * HORIZON * len(QUANTILES))

    def forward(self, x):
        xn, stats = self.revin.norm(x)
        h = self.blocks(xn)[..., -1]
        y = self.head(h).view(-1, SERIES, HORIZON, len(QUANTILES))
        return self.revin.denorm(y, stats)


def pinball(pred, target):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        err = target - pred[..., i]
        total = total + torch.maximum(q * err, (q - 1.0) * err).mean()
    return total / len(QUANTILES)


def make_optimizer(model):
    decay = [p for n, p in model.named_parameters() if p.dim() > 1 and "revin" not in n]
    plain = [p for n, p in model.named_parameters() if p.dim() <= 1 or "revin" in n]
    return torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}],
        lr=1e-3,
        betas=(0.9, 0.98),
    )


def live_tensors(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
        st = opt.state[p]
        out += [st[k] for k in ("exp_avg", "exp_avg_sq")]
    return out


def main(path, steps=3):
    torch.manual_seed(11)
    dev = torch_xla.device()
    model = Forecaster().to(dev)
    opt = make_optimizer(model)
    g = torch.Generator().manual_seed(2)
    for step in range(steps):
        x = (10 + 3 * torch.randn(5, SERIES, CONTEXT, generator=g)).to(dev)
        y = (10 + 3 * torch.randn(5, SERIES, HORIZON, generator=g)).to(dev)
        opt.zero_grad()
        loss = pinball(model(x), y)
        loss.backward()
        opt.step()
        if step == steps - 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss]))
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
