"""Small GAN on 8x8 sprites with R1 (applied lazily) and an EMA generator."""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm

device = xm.xla_device()

ZDIM = 8
BATCH = 16
ITERS = 72
R1_EVERY = 8
R1_GAMMA = 1.0
SAMPLE_EVERY = 12
EMA = 0.98


def sprites(n, gen):
    """blobs with random centre and width"""
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=gen) * 4 + 2
    s = torch.rand(n, 1, 1, generator=gen) + 0.8
    d = (yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2
    return torch.exp(-d / (2 * s * s)).unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(ZDIM, ch * 2 * 4 * 4)
        self.conv1 = nn.Conv2d(ch * 2, ch, 3, padding=1)
        self.to_img = nn.Conv2d(ch, 1, 1)

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch * 2, 4, 4)
        h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return torch.tanh(self.to_img(F.leaky_relu(self.conv1(h), 0.2)))


class Discriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.conv1 = nn.Conv2d(1, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch * 2, 3, stride=2, padding=1)
        self.fc = nn.Linear(ch * 2 * 16, 1)

    def forward(self, x):
        h = F.leaky_relu(self.conv1(x), 0.2)
        h = F.leaky_relu(self.conv2(h), 0.2)
        return self.fc(h.flatten(1)).squeeze(1)


def requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


@torch.no_grad()
def accumulate(ema, net, decay):
    for a, b in zip(ema.parameters(), net.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)


def d_step(G, D, opt, real):
    requires_grad(D, True)
    z = torch.randn(BATCH, ZDIM, device=device)
    with torch.no_grad():
        fake = G(z)
    loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def r1_step(D, opt, real):
    real = real.detach().requires_grad_(True)
    score = D(real)
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    penalty = grad.pow(2).flatten(1).sum(1).mean()
    opt.zero_grad()
    (R1_GAMMA / 2 * penalty * R1_EVERY).backward()
    opt.step()
    return penalty.detach()


def g_step(G, D, opt):
    requires_grad(D, False)
    z = torch.randn(BATCH, ZDIM, device=device)
    loss = F.softplus(-D(G(z))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


torch.manual_seed(1)
G = Generator().to(device)
D = Discriminator().to(device)
G_ema = copy.deepcopy(G)
requires_grad(G_ema, False)
g_opt = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
d_opt = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
fixed_z = torch.randn(9, ZDIM).to(device)
gen = torch.Generator().manual_seed(2)
r1 = torch.zeros((), device=device)
torch_xla.sync()

for i in range(ITERS):
    real = sprites(BATCH, gen).to(device)
    d_loss = d_step(G, D, d_opt, real)
    torch_xla.sync()
    if i % R1_EVERY == 0:
        r1 = r1_step(D, d_opt, real)
        torch_xla.sync()
    g_loss = g_step(G, D, g_opt)
    accumulate(G_ema, G, EMA)
    torch_xla.sync()

    if i % SAMPLE_EVERY == 0:
        with torch.no_grad():
            grid = G_ema(fixed_z)
        torch_xla.sync()
        side = int(math.sqrt(grid.shape[0]))
        ink = (grid.cpu() > 0).float().mean().item()
        print(f"iter {i} D {d_loss.item():.3f} G {g_loss.item():.3f} R1 {r1.item():.3f} grid {side}x{side} ink {ink:.2f}")
