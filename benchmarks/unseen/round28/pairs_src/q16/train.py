import copy
import math

import torch
import torch_xla
from torch import nn, optim
from torch.nn import functional as F

Z = 8
RES = 8


def up_block(cin, cout):
    return nn.Sequential(
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.LeakyReLU(0.2),
    )


class Generator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.fc = nn.Linear(Z, ch * 2 * 2)
        self.u1 = up_block(ch, ch)
        self.u2 = up_block(ch, ch // 2)
        self.rgb = nn.Conv2d(ch // 2, 3, 1)
        self.ch = ch

    def forward(self, z):
        x = self.fc(z).view(-1, self.ch, 2, 2)
        return torch.tanh(self.rgb(self.u2(self.u1(x))))


class Critic(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.c1 = nn.Conv2d(3, ch, 4, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, ch * 2, 4, stride=2, padding=1)
        self.fc = nn.Linear(ch * 2 * 4, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def blobs(n, gen):
    yy, xx = torch.meshgrid(torch.arange(RES), torch.arange(RES), indexing="ij")
    cy, cx = torch.rand(2, n, 1, 1, generator=gen) * (RES - 1)
    d = (yy - cy) ** 2 + (xx - cx) ** 2
    img = torch.exp(-d / 4.0) * 2 - 1
    tint = torch.rand(n, 3, 1, 1, generator=gen)
    return img[:, None] * tint


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3)).mean()


@torch.no_grad()
def update_average(avg, net, decay):
    for a, p in zip(avg.parameters(), net.parameters()):
        a.lerp_(p, 1.0 - decay)


def train(total=10, batch=4, r1_gamma=2.0, r1_every=4, ema_every=8):
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(9)
    dev = torch_xla.device()
    G, D = Generator().to(dev), Critic().to(dev)
    G_avg = copy.deepcopy(G).requires_grad_(False)
    opt_g = optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.99))
    opt_d = optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.99))
    decay = math.exp(-math.log(2) * batch * ema_every / 100)

    for step in range(1, total + 1):
        with torch_xla.step():
            real = blobs(batch, gen).to(dev)

            fake = G(torch.randn(batch, Z, generator=gen).to(dev))
            d_loss = F.softplus(D(fake.detach())).mean() + F.softplus(-D(real)).mean()
            if step % r1_every == 0:
                d_loss = d_loss + 0.5 * r1_gamma * r1_every * r1_penalty(D, real)
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()

            g_loss = F.softplus(-D(fake)).mean()
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()

            if step % ema_every == 0:
                update_average(G_avg, G, decay)
        print(step, round(d_loss.item(), 4), round(g_loss.item(), 4))


if __name__ == "__main__":
    train()
