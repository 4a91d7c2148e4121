"""DCGAN-ish on 8x8 blobs, non-saturating loss, lazy R1, generator EMA."""
import copy
import functools

import torch
from torch import nn, autograd
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class G(nn.Module):
    def __init__(self, z=8, c=8):
        super().__init__()
        self.fc = nn.Linear(z, c * 4)
        self.c1 = nn.ConvTranspose2d(c, c, 4, 2, 1)
        self.c2 = nn.ConvTranspose2d(c, 1, 4, 2, 1)
        self.c = c

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.c, 2, 2)
        h = F.leaky_relu(self.c1(h), 0.2)
        return torch.tanh(self.c2(h))


class D(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.c1 = nn.Conv2d(1, c, 3, 2, 1)
        self.c2 = nn.Conv2d(c, c, 3, 2, 1)
        self.fc = nn.Linear(c * 4, 1)

    def forward(self, x):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h))
        return self.fc(h.flatten(1)).squeeze(1)


def requires_grad(m, flag):
    for p in m.parameters():
        p.requires_grad_(flag)


def r1_penalty(scores, images):
    (grad,) = autograd.grad(scores.sum(), images, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


@torch.no_grad()
def accumulate(avg, net, decay):
    for a, b in zip(avg.parameters(), net.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)


class Trainer:
    def __init__(self, opts):
        self.o = opts
        self.dev = xm.xla_device()
        torch.manual_seed(opts["seed"])
        self.g, self.d = G().to(self.dev), D().to(self.dev)
        self.g_ema = copy.deepcopy(self.g)
        requires_grad(self.g_ema, False)
        adam = functools.partial(torch.optim.Adam, betas=(0.0, 0.99), eps=1e-8)
        self.g_opt = adam(self.g.parameters(), lr=opts["lr"])
        self.d_opt = adam(self.d.parameters(), lr=opts["lr"] * 1.5)
        xm.mark_step()

    def d_step(self, real, z, i):
        requires_grad(self.g, False)
        requires_grad(self.d, True)
        fake = self.g(z)
        apply_r1 = i % self.o["r1_every"] == 0
        real.requires_grad_(apply_r1)
        real_pred = self.d(real)
        loss = F.softplus(-real_pred).mean() + F.softplus(self.d(fake)).mean()
        total = loss
        if apply_r1:
            total = total + self.o["r1"] / 2 * self.o["r1_every"] * r1_penalty(real_pred, real)
        self.d_opt.zero_grad()
        total.backward()
        self.d_opt.step()
        return loss.detach()

    def g_step(self, z):
        requires_grad(self.g, True)
        requires_grad(self.d, False)
        loss = F.softplus(-self.d(self.g(z))).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        return loss.detach()

    def train(self, data):
        for i, (real, z1, z2) in enumerate(data):
            real, z1, z2 = (t.to(self.dev) for t in (real, z1, z2))
            ld = self.d_step(real, z1, i)
            lg = self.g_step(z2)
            if i >= self.o["ema_from"]:
                accumulate(self.g_ema, self.g, self.o["ema"])
            xm.mark_step()
            print(f"{i}: d {ld.item():.3f} g {lg.item():.3f}")


def blobs(n, bs=8, seed=1):
    gen = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    for _ in range(n):
        c = 2 + 4 * torch.rand(bs, 2, 1, 1, generator=gen)
        img = torch.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) / 3) * 2 - 1
        yield img.unsqueeze(1), torch.randn(bs, 8, generator=gen), torch.randn(bs, 8, generator=gen)


if __name__ == "__main__":
    Trainer(dict(seed=0, lr=2e-3, r1=10.0, r1_every=4, ema=0.995, ema_from=4)).train(blobs(8))
