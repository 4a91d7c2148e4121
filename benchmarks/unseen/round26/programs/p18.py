import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as txla

"""Non-saturating GAN on ring-shaped images, with lazy R1 and an averaged generator."""

opts = {
    "z_dim": 8,
    "batch": 12,
    "iters": 64,
    "r1_gamma": 2.0,
    "r1_every": 8,
    "ema_beta": 0.98,
    "sample_every": 16,
    "lr_g": 2e-3,
    "lr_d": 2e-3,
}


def real_batch(n, gen, size=8):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    r = 0.35 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    ring = torch.exp(-((yy ** 2 + xx ** 2).sqrt()[None] - r) ** 2 / 0.02)
    return (ring * 2 - 1)[:, None]


class Generator(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.fc = nn.Linear(z, 16 * 2 * 2)
        self.up1 = nn.Conv2d(16, 12, 3, padding=1)
        self.up2 = nn.Conv2d(12, 1, 3, padding=1)

    @staticmethod
    def double(x):
        return x.repeat_interleave(2, 2).repeat_interleave(2, 3)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(-1, 16, 2, 2)
        h = F.relu(self.up1(self.double(h)))
        return torch.tanh(self.up2(self.double(h)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, 2, 1)
        self.c2 = nn.Conv2d(12, 16, 3, 2, 1)
        self.fc = nn.Linear(16 * 4, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.fc(h.flatten(1)).squeeze(1)


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


class Trainer:
    def __init__(self, o):
        self.o = o
        self.device = txla.device()
        self.G, self.D = Generator(o["z_dim"]).to(self.device), Discriminator().to(self.device)
        self.G_avg = copy.deepcopy(self.G)
        set_grad(self.G_avg, False)
        self.opt_g = torch.optim.RMSprop(self.G.parameters(), lr=o["lr_g"])
        self.opt_d = torch.optim.RMSprop(self.D.parameters(), lr=o["lr_d"])
        self.gen = torch.Generator().manual_seed(1)
        self.fixed_z = torch.randn(o["batch"], o["z_dim"], generator=self.gen).to(self.device)

    def noise(self):
        return torch.randn(self.o["batch"], self.o["z_dim"], generator=self.gen).to(self.device)

    def d_step(self, with_r1):
        set_grad(self.D, True)
        x = real_batch(self.o["batch"], self.gen).to(self.device)
        with torch.no_grad():
            fake = self.G(self.noise())
        if with_r1:
            x.requires_grad_(True)
        real_logits = self.D(x)
        loss = F.softplus(-real_logits).mean() + F.softplus(self.D(fake)).mean()
        if with_r1:
            (grad,) = torch.autograd.grad(real_logits.sum(), x, create_graph=True)
            penalty = grad.pow(2).flatten(1).sum(1).mean()
            loss = loss + 0.5 * self.o["r1_gamma"] * self.o["r1_every"] * penalty
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        txla.sync()
        return loss.detach()

    def g_step(self):
        set_grad(self.D, False)
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for avg, p in zip(self.G_avg.parameters(), self.G.parameters()):
                avg.lerp_(p, 1 - self.o["ema_beta"])
        txla.sync()
        return loss.detach()

    @torch.no_grad()
    def sample(self):
        images = self.G_avg(self.fixed_z)
        txla.sync()
        images = images.cpu()
        return images.mean().item(), images.std().item()

    def fit(self):
        for it in range(self.o["iters"]):
            ld = self.d_step(with_r1=it % self.o["r1_every"] == 0)
            lg = self.g_step()
            if it % self.o["sample_every"] == 0:
                m, s = self.sample()
                print(f"it {it:3d}  D {ld.item():.3f}  G {lg.item():.3f}  ema mean {m:+.2f} std {s:.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(opts).fit()
