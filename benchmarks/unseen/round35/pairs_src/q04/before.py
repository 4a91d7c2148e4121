"""Affine-coupling flow for calorimeter shower features, conditioned on the incident energy."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

DIM, HIDDEN, LAYERS, ALPHA = 6, 16, 3, 1.9


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        half = DIM // 2
        self.net = nn.Sequential(
            nn.Linear(half + 1, HIDDEN), nn.LeakyReLU(0.1), nn.Linear(HIDDEN, 2 * half)
        )
        self.log_gain = nn.Parameter(torch.zeros(DIM))
        self.shift = nn.Parameter(torch.zeros(DIM))

    def forward(self, x, cond):
        x = x * self.log_gain.exp() + self.shift
        x1, x2 = x.chunk(2, dim=1)
        if self.flip:
            x1, x2 = x2, x1
        log_s, t = self.net(torch.cat([x1, cond], dim=1)).chunk(2, dim=1)
        log_s = ALPHA * torch.tanh(log_s / ALPHA)
        y2 = x2 * log_s.exp() + t
        logdet = log_s.sum(dim=1) + self.log_gain.sum()
        y = torch.cat([y2, x1] if self.flip else [x1, y2], dim=1)
        return y, logdet


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(i % 2 == 1) for i in range(LAYERS)])

    def forward(self, x, cond):
        total = torch.zeros(x.shape[0], device=x.device)
        for layer in self.layers:
            x, logdet = layer(x, cond)
            total = total + logdet
        return x, total


def standard_normal_logp(z):
    return (-0.5 * z.pow(2) - 0.5 * math.log(2 * math.pi)).sum(dim=1)


def preprocess(energy_dep, incident, noise):
    frac = (energy_dep + noise * 1e-3) / incident
    frac = frac.clamp(1e-6, 1 - 1e-6)
    x = torch.log(frac) - torch.log1p(-frac)
    return (x + 1.0) / 2.0, torch.log10(incident) - 1.5


def train_step(flow, opt, batch):
    opt.zero_grad()
    x, cond = preprocess(*batch)
    z, logdet = flow(x, cond)
    logp = standard_normal_logp(z) + logdet
    loss = -logp.mean()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    opt.step()
    return loss.detach(), z.detach().std(dim=0)


def make_batch(gen, device):
    incident = torch.rand(24, 1, generator=gen) * 90 + 10
    dep = incident * torch.rand(24, DIM, generator=gen) * 0.5
    noise = torch.rand(24, DIM, generator=gen)
    return tuple(t.to(device) for t in (dep, incident, noise))


def live_tensors(flow, opt, logs):
    out = list(logs)
    for p in flow.parameters():
        out += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def run(steps, dump_at=None, path=None):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    flow = Flow().to(device)
    opt = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-4)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        batch = make_batch(gen, device)
        logs = train_step(flow, opt, batch)
        if step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(flow, opt, logs)))
        torch_xla.sync()
        hist.append(logs[0].item())
    return hist


if __name__ == "__main__":
    print(run(3, 2, sys.argv[1]))
