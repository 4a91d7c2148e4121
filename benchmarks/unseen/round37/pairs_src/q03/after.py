"""Wind-farm power: quantile N-BEATS with reversible instance norm."""
import sys

import torch
import torch.nn as nn
import torch_xla

LOOKBACK, HORIZON, WIDTH, THETA = 24, 6, 20, 8
QUANTILES = (0.1, 0.5, 0.9)


class InstanceScale(nn.Module):
    """Normalise every window by its own statistics, undo it on the output."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        mean = x.mean(dim=1, keepdim=True)
        std = torch.sqrt(x.var(dim=1, keepdim=True) + self.eps)
        return (x - mean) / std * self.gain + self.bias, (mean, std)

    def inverse(self, y, stats):
        mean, std = stats
        y = (y - self.bias) / (self.gain + self.eps)
        return y * std.unsqueeze(-1) + mean.unsqueeze(-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(LOOKBACK, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.theta = nn.Linear(WIDTH, THETA, bias=False)
        self.back = nn.Linear(THETA, LOOKBACK, bias=False)
        self.fore = nn.Linear(THETA, HORIZON * len(QUANTILES))

    def forward(self, x):
        h = torch.relu(self.fc2(torch.relu(self.fc1(x))))
        th = self.theta(h)
        return self.back(th), self.fore(th)


class QuantileNBeats(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.scale = InstanceScale()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        r, stats = self.scale(x)
        total = 0.0
        for blk in self.blocks:
            back, fore = blk(r)
            r = r - back
            total = total + fore
        y = total.view(-1, HORIZON, len(QUANTILES))
        return self.scale.inverse(y, stats)


def pinball(pred, target, q):
    e = target.unsqueeze(-1) - pred
    return torch.maximum(q * e, (q - 1.0) * e).sum(-1).mean()


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)


def live(model, opt):
    out = []
    for p in model.parameters():
        if p in opt.state:
            out += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def windows(gen, n=16):
    t = torch.arange(LOOKBACK + HORIZON).float()
    phase = torch.rand(n, 1, generator=gen) * 6.0
    s = 2.0 + torch.sin(t / 4.0 + phase) + 0.2 * torch.randn(n, t.numel(), generator=gen)
    return s[:, :LOOKBACK], s[:, LOOKBACK:]


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(5)
    model = QuantileNBeats().to(dev)
    opt = make_optimizer(model)
    q = torch.tensor(QUANTILES).to(dev)
    torch_xla.sync()
    for it in range(4):
        x, y = (t.to(dev) for t in windows(gen))
        pred = model(x)
        loss = pinball(pred, y, q)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        cover = ((y >= pred[..., 0]) & (y <= pred[..., -1])).float().mean()
        if it == 2 and len(sys.argv) > 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [pred, loss, cover])
            with open(sys.argv[1], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(it, loss.item(), cover.item())


if __name__ == "__main__":
    main()
