import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(5)
Z, IMG, BS = 16, 64, 8
R1_GAMMA, D_REG_EVERY = 1.0, 4


class MappingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fcs = nn.ModuleList([nn.Linear(Z, Z) for _ in range(2)])

    def forward(self, z):
        z = z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8)
        for fc in self.fcs:
            z = F.leaky_relu(fc(z), 0.2)
        return z


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.mapping = MappingNet()
        self.body = nn.Sequential(nn.Linear(Z, 48), nn.LeakyReLU(0.2), nn.Linear(48, IMG), nn.Tanh())

    def forward(self, z):
        return self.body(self.mapping(z))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1, self.f2, self.f3 = nn.Linear(IMG, 48), nn.Linear(48, 24), nn.Linear(24, 1)

    def forward(self, x):
        x = F.leaky_relu(self.f1(x), 0.2)
        x = F.softplus(self.f2(x))
        return self.f3(x)


def toggle(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def r1_penalty(d, real):
    real = real.detach().requires_grad_(True)
    pred = d(real)
    grad, = torch.autograd.grad(pred.sum(), real, create_graph=True)
    return grad.pow(2).sum(1).mean()


def d_step(g, d, opt_d, real, it):
    toggle(g, False)
    toggle(d, True)
    fake = g(torch.randn(real.size(0), Z, device=real.device))
    loss = F.softplus(d(fake)).mean() + F.softplus(-d(real)).mean()
    if it % D_REG_EVERY == 0:
        loss = loss + 0.5 * R1_GAMMA * D_REG_EVERY * r1_penalty(d, real)
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.detach()


def g_step(g, d, opt_g, real):
    toggle(g, True)
    toggle(d, False)
    loss = F.softplus(-d(g(torch.randn(real.size(0), Z, device=real.device)))).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.detach()


def train(iters=13):
    dev = torch_xla.device()
    g, d = Generator().to(dev), Discriminator().to(dev)
    opt_g = torch.optim.Adam(g.parameters(), 2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(d.parameters(), 2e-3, betas=(0.0, 0.99))
    for it in range(iters):
        real = torch.rand(BS, IMG).mul(2).sub(1).to(dev)
        ld = d_step(g, d, opt_d, real, it)
        lg = g_step(g, d, opt_g, real)
        torch_xla.sync()
        if it % 6 == 0:
            print(f"{it:04d} D {ld.item():.3f} G {lg.item():.3f}")


train()
