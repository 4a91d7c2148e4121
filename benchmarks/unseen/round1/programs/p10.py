import random
import torch
import torch.nn as nn
import torch_xla

T = 50


class Denoiser(nn.Module):
    def __init__(self, dim=2, hidden=32):
        super().__init__()
        self.time = nn.Embedding(T, hidden)
        self.inp = nn.Linear(dim, hidden)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x, t):
        return self.out(self.inp(x) + self.time(t))


class Schedule:
    def __init__(self, device):
        betas = torch.linspace(1e-4, 0.05, T)
        self.abar = torch.cumprod(1 - betas, 0).to(device)

    def add_noise(self, x0, noise, t):
        a = self.abar[t]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise


def spiral(n):
    th = torch.rand(n) * 6.28
    return torch.stack([th.cos() * th / 6, th.sin() * th / 6], 1)


def main():
    random.seed(1)
    torch.manual_seed(1)
    device = torch_xla.device()
    model, sched = Denoiser().to(device), Schedule(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for it in range(10):
        x0 = spiral(16).to(device)
        t = random.randrange(T)
        noise = torch.randn(16, 2).to(device)
        xt = sched.add_noise(x0, noise, t)
        steps = torch.full((16,), t).to(device)
        loss = (model(xt, steps) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(it, "t=%d" % t, "%.4f" % loss.item())


main()
