"""Density estimation of sensor readings with a small RealNVP."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.distributions import Independent, Normal

DIM = 6
HALF = DIM // 2


class Coupling(nn.Module):
    def __init__(self, hidden=10):
        super().__init__()
        self.body = nn.Linear(HALF, hidden)
        self.scale = nn.Linear(hidden, HALF)
        self.shift = nn.Linear(hidden, HALF)
        self.log_gain = nn.Parameter(torch.full((HALF,), -0.3))

    def log_scale_and_shift(self, cond):
        h = F.relu(self.body(cond))
        return self.scale(h).tanh() * self.log_gain.exp(), self.shift(h)

    def forward(self, x):
        keep, change = x.chunk(2, dim=-1)
        log_s, t = self.log_scale_and_shift(keep)
        # halves swap places for the next layer
        return torch.cat([torch.addcmul(t, change, log_s.exp()), keep], dim=-1), log_s.sum(-1)


class RealNVP(nn.Module):
    def __init__(self, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList([Coupling() for _ in range(n_layers)])
        self.register_buffer("loc", torch.zeros(DIM), persistent=False)
        self.register_buffer("std", torch.ones(DIM), persistent=False)

    @property
    def base(self):
        return Independent(Normal(self.loc, self.std, validate_args=False), 1, validate_args=False)

    def log_prob(self, x):
        logdets = []
        for layer in self.layers:
            x, ld = layer(x)
            logdets.append(ld)
        return self.base.log_prob(x) + torch.stack(logdets).sum(0)


def train_step(model, opt, params, x):
    opt.zero_grad(set_to_none=True)
    loss = model.log_prob(x).mean().neg()
    loss.backward()
    gnorm = nn.utils.clip_grad_norm_(params, 2.0, foreach=False)
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
