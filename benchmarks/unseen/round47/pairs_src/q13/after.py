"""Coupling flow for the joint density of laboratory values (tabular, 6 columns).

Affine couplings with alternating halves and fixed permutations, trained by maximum
likelihood with RMSprop.
"""
import math
import os
import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

DIM = 6
HALF = DIM // 2
LOG_2PI = math.log(2 * math.pi)


class Coupling(nn.Module):
    def __init__(self, hidden=16, flip=False):
        super().__init__()
        self.flip = flip
        self.fc1 = nn.Linear(HALF, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, DIM)
        self.cap = nn.Parameter(torch.ones(HALF))

    def conditioner(self, cond):
        h = self.fc2(self.fc1(cond).relu()).relu()
        raw, t = self.fc3(h).chunk(2, dim=-1)
        return self.cap * torch.tanh(raw), t

    def split(self, x):
        a, b = x.split(HALF, dim=-1)
        return (b, a) if self.flip else (a, b)

    def join(self, cond, moved):
        parts = (moved, cond) if self.flip else (cond, moved)
        return torch.cat(parts, dim=-1)

    def forward(self, x):
        cond, moved = self.split(x)
        s, t = self.conditioner(cond)
        return self.join(cond, torch.addcmul(t, moved, s.exp())), s


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(flip=bool(i % 2)) for i in range(depth))
        self.register_buffer("loc", torch.zeros(DIM))
        self.register_buffer("scale", torch.ones(DIM))

    def log_prob(self, x):
        z = (x - self.loc) / self.scale
        scales = []
        for layer in self.layers:
            z, s = layer(z)
            scales.append(s)
        logdet = torch.stack(scales).sum(dim=(0, 2)) - self.scale.log().sum()
        return logdet - 0.5 * (z.square().sum(dim=-1) + DIM * LOG_2PI)


def train_step(flow, opt, x, weight):
    opt.zero_grad()
    logp = flow.log_prob(x)
    loss = -torch.dot(logp, weight / weight.sum())
    loss.backward()
    opt.step()
    return loss


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.append(p)
        if p.grad is not None:
            out.append(p.grad)
    for p in model.parameters():
        state = opt.state.get(p, {})
        out.extend(state[k] for k in sorted(state) if torch.is_tensor(state[k]))
    return [t for t in out if t.device.type == "xla"]


def main(path):
    torch.manual_seed(13)
    dev = xm.xla_device()
    flow = Flow()
    flow.loc.copy_(torch.randn(DIM))
    flow.scale.copy_(0.5 + torch.rand(DIM))
    flow = flow.to(dev)
    opt = torch.optim.RMSprop(flow.parameters(), lr=1e-3, alpha=0.95)
    for it in range(4):
        x = torch.randn(16, DIM).to(dev)
        weight = torch.rand(16).to(dev)
        loss = train_step(flow, opt, x, weight)
        if it == 3:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(flow, opt, loss))
            with open(path, "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item())
    print(sum(p.double().abs().sum().item() for p in flow.cpu().parameters()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "b.hlo"))
