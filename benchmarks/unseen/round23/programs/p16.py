import math

import torch
from torch import nn
import torch_xla

dev = torch_xla.device()
CFG = dict(steps=60, batch=24, dim=2, T=40, width=48, lr=2e-3, preview_every=20, n_preview=32)


def cosine_betas(T, s=0.008):
    t = torch.linspace(0, T, T + 1) / T
    f = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
    return (1 - f[1:] / f[:-1]).clamp(max=0.999)


class Schedule:
    def __init__(self, T, device):
        betas = cosine_betas(T)
        alphas = 1 - betas
        bar = torch.cumprod(alphas, 0)
        prev = torch.cat([torch.ones(1), bar[:-1]])
        self.T = T
        self.betas = betas.to(device)
        self.alphas = alphas.to(device)
        self.bar = bar.to(device)
        self.post_var = (betas * (1 - prev) / (1 - bar)).to(device)

    def noisy(self, x0, t, eps):
        b = self.bar[t][:, None]
        return b.sqrt() * x0 + (1 - b).sqrt() * eps


class Denoiser(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, -4, 8)))
        self.inp = nn.Linear(dim + 16, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.out = nn.Linear(width, dim)

    def forward(self, x, t):
        ang = t[:, None].float() * self.freqs
        h = self.inp(torch.cat([x, ang.sin(), ang.cos()], dim=1))
        for layer in self.mid:
            h = h + layer(nn.functional.silu(h))
        return self.out(nn.functional.silu(h))


def two_moons(n):
    a = torch.rand(n) * math.pi
    side = (torch.rand(n) > 0.5).float()
    x = torch.cos(a) * (1 - 2 * side) + side
    y = torch.sin(a) * (1 - 2 * side) + 0.5 * side
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2)


@torch.no_grad()
def sample(model, sched, n, dim):
    x = torch.randn(n, dim, device=dev)
    for i in reversed(range(sched.T)):
        t = torch.full((n,), i, dtype=torch.long, device=dev)
        eps = model(x, t)
        coef = sched.betas[i] / (1 - sched.bar[i]).sqrt()
        mean = (x - coef * eps) / sched.alphas[i].sqrt()
        noise = torch.randn(n, dim, device=dev)
        x = mean + sched.post_var[i].sqrt() * noise
        torch_xla.sync()
    return x


def main():
    torch.manual_seed(0)
    model = Denoiser(CFG["dim"], CFG["width"]).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])
    sched = Schedule(CFG["T"], dev)
    torch_xla.sync()
    for step in range(1, CFG["steps"] + 1):
        x0 = two_moons(CFG["batch"]).to(dev)
        t = torch.randint(0, sched.T, (CFG["batch"],)).to(dev)
        eps = torch.randn(CFG["batch"], CFG["dim"]).to(dev)
        loss = (model(sched.noisy(x0, t, eps), t) - eps).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 10 == 0:
            print("step", step, "loss", round(loss.item(), 4))
        if step % CFG["preview_every"] == 0:
            pts = sample(model, sched, CFG["n_preview"], CFG["dim"]).cpu()
            print("  preview: mean", pts.mean(0).tolist(), "std", pts.std(0).tolist())


main()
