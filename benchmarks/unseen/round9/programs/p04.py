"""DDPM on 8x8 synthetic blobs, sampling a small grid after each epoch."""
import math

import torch
import torch.nn as nn
import torch_xla

cfg = {
    "timesteps": 14,
    "beta": (1e-3, 0.25),
    "side": 8,
    "width": 24,
    "time_dim": 32,
    "batch": 32,
    "epochs": 2,
    "steps_per_epoch": 10,
    "lr": 2e-3,
    "samples": 8,
}


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
    ang = t.float().unsqueeze(1) * freqs
    return torch.cat([ang.sin(), ang.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, ch, tdim):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(tdim, ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, temb):
        h = self.conv1(torch.relu(self.norm(x)))
        h = h + self.emb(temb)[:, :, None, None]
        return x + self.conv2(torch.relu(h))


class TinyUNet(nn.Module):
    def __init__(self, width, tdim):
        super().__init__()
        self.tdim = tdim
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(tdim, tdim), nn.SiLU())
        self.blocks = nn.ModuleList([ResBlock(width, tdim) for _ in range(2)])
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        temb = self.time(timestep_embedding(t, self.tdim))
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, temb)
        return self.out(h)


def make_schedule(device):
    betas = torch.linspace(*cfg["beta"], cfg["timesteps"])
    alphas = 1.0 - betas
    abar = torch.cumprod(alphas, 0)
    return {"betas": betas.to(device), "alphas": alphas.to(device), "abar": abar.to(device)}


def blobs(n, gen):
    grid = torch.arange(cfg["side"]).float()
    c = torch.rand(n, 2, generator=gen) * (cfg["side"] - 1)
    dy = (grid[None, :, None] - c[:, 0, None, None]) ** 2
    dx = (grid[None, None, :] - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-(dx + dy) / 4) - 1).unsqueeze(1)


def q_sample(sched, x0, t, noise):
    a = sched["abar"][t].view(-1, 1, 1, 1)
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


@torch.no_grad()
def sample(net, sched, n, device):
    net.eval()
    x = torch.randn(n, 1, cfg["side"], cfg["side"], device=device)
    for i in reversed(range(cfg["timesteps"])):
        t = torch.tensor([i] * n).to(device)
        eps = net(x, t)
        beta, alpha, abar = sched["betas"][i], sched["alphas"][i], sched["abar"][i]
        x = (x - beta / (1 - abar).sqrt() * eps) / alpha.sqrt()
        if i > 0:
            x = x + beta.sqrt() * torch.randn_like(x)
        torch_xla.sync()
    net.train()
    return x.clamp(-1, 1).cpu()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    sched = make_schedule(device)
    net = TinyUNet(cfg["width"], cfg["time_dim"]).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"])
    gen = torch.Generator().manual_seed(11)

    for epoch in range(cfg["epochs"]):
        for _ in range(cfg["steps_per_epoch"]):
            x0 = blobs(cfg["batch"], gen).to(device)
            t = torch.randint(0, cfg["timesteps"], (cfg["batch"],), generator=gen).to(device)
            noise = torch.randn_like(x0)
            loss = (net(q_sample(sched, x0, t, noise), t) - noise).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
        images = sample(net, sched, cfg["samples"], device)
        print(f"epoch {epoch} loss {loss.item():.4f} sample mean {images.mean():.3f} std {images.std():.3f}")


if __name__ == "__main__":
    main()
