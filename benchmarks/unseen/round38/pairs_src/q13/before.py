"""Density estimation of sensor readings with a small RealNVP."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

DIM = 6
HALF = DIM // 2


class Coupling(nn.Module):
    def __init__(self, hidden=10):
        super().__init__()
        self.body = nn.Linear(HALF, hidden)
        self.scale = nn.Linear(hidden, HALF)
        self.shift = nn.Linear(hidden, HALF)
        self.log_gain = nn.Parameter(torch.full((HALF,), -0.3))

    def forward(self, x):
        x1 = x[:, :HALF]
        x2 = x[:, HALF:]
        h = torch.relu(self.body(x1))
        s = torch.tanh(self.scale(h)) * torch.exp(self.log_gain)
        t = self.shift(h)
        y2 = x2 * torch.exp(s) + t
        y = torch.cat([x1, y2], dim=1)
        return torch.roll(y, HALF, dims=1), s.sum(dim=1)


class RealNVP(nn.Module):
    def __init__(self, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList([Coupling() for _ in range(n_layers)])

    def log_prob(self, x):
        logdet = torch.zeros(x.shape[0], device=x.device)
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        prior = -0.5 * (x ** 2).sum(dim=1) - 0.5 * DIM * math.log(2 * math.pi)
        return prior + logdet


def clip_gradients(params, max_norm):
    total = 0.0
    for p in params:
        total = total + (p.grad ** 2).sum()
    total = torch.sqrt(total)
    coef = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for p in params:
        p.grad.mul_(coef)
    return total


def train_step(model, opt, params, x):
    opt.zero_grad(set_to_none=True)
    loss = -model.log_prob(x).mean()
    loss.backward()
    gnorm = clip_gradients(params, 2.0)
    opt.step()
    return loss, gnorm


def main(out):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = RealNVP().to(device)
    params = list(model.parameters())
    opt = torch.optim.Adagrad(params, lr=1e-2, foreach=False)
    for p in params:
        opt.state[p]["sum"] = opt.state[p]["sum"].to(device)
    data = [torch.randn(12, DIM).mul(1.7).add(0.4).to(device) for _ in range(6)]
    torch_xla.sync()
    for i, x in enumerate(data):
        loss, gnorm = train_step(model, opt, params, x)
        if i == 2:
            ts = [loss, gnorm] + params + [p.grad for p in params] + [opt.state[p]["sum"] for p in params]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(ts))
        torch_xla.sync()
        print(i, "%.7f %.7f" % (loss.item(), gnorm.item()), "%.7f" % sum(p.abs().sum().item() for p in params))


if __name__ == "__main__":
    main(sys.argv[1])
