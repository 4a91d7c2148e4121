import copy

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

# --- tiny StyleGAN2-flavoured loop: lazy R1, EMA generator, periodic sample statistics -------------

Z = 16
BS = 8
STEPS = 160
D_REG_EVERY = 4
R1_GAMMA = 2.0
EMA_BETA = 0.98
SNAPSHOT_EVERY = 20


class Generator(nn.Module):
    def __init__(self, z=Z, ch=12):
        super().__init__()
        self.fc = nn.Linear(z, ch * 4 * 4)
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, 1, 3, padding=1)
        self.ch = ch

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch, 4, 4)
        h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
        h = F.leaky_relu(self.c1(h), 0.2)
        return torch.tanh(self.c2(h))


class Critic(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.out = nn.Linear(ch * 2 * 2, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.out(h.flatten(1)).squeeze(1)


def blobs(n):
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    cy, cx = torch.rand(2, n, 1, 1) * 5 + 1
    s = torch.rand(n, 1, 1) + 0.8
    img = torch.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * s * s))
    return (img * 2 - 1).unsqueeze(1)


class GANTrainer:
    def __init__(self, device):
        self.device = device
        self.G = Generator().to(device)
        self.D = Critic().to(device)
        self.G_ema = copy.deepcopy(self.G).eval().requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.fixed_z = torch.randn(16, Z).to(device)

    def noise(self):
        return torch.randn(BS, Z).to(self.device)

    def d_step(self, real):
        self.d_opt.zero_grad()
        with torch.no_grad():
            fake = self.G(self.noise())
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        loss.backward()
        self.d_opt.step()
        torch_xla.sync()
        return loss.detach()

    def d_regularize(self, real):
        self.d_opt.zero_grad()
        real = real.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(self.D(real).sum(), real, create_graph=True)
        penalty = grad.square().sum(dim=(1, 2, 3)).mean()
        (0.5 * R1_GAMMA * D_REG_EVERY * penalty).backward()
        self.d_opt.step()
        torch_xla.sync()

    def g_step(self):
        self.g_opt.zero_grad()
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        loss.backward()
        self.g_opt.step()
        self.D.requires_grad_(True)
        with torch.no_grad():
            for e, p in zip(self.G_ema.parameters(), self.G.parameters()):
                e.mul_(EMA_BETA).add_(p, alpha=1 - EMA_BETA)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def snapshot(self):
        imgs = self.G_ema(self.fixed_z)
        stats = torch.stack([imgs.mean(), imgs.std(), imgs.max()])
        torch_xla.sync()
        return stats.tolist()


def main():
    torch.manual_seed(3)
    trainer = GANTrainer(torch_xla.device())
    data = blobs(256)
    for it in range(STEPS):
        idx = torch.randint(0, len(data), (BS,))
        real = data[idx].to(trainer.device)
        d_loss = trainer.d_step(real)
        if it % D_REG_EVERY == 0:
            trainer.d_regularize(real)
        g_loss = trainer.g_step()
        if it % SNAPSHOT_EVERY == 0:
            mean, std, peak = trainer.snapshot()
            print(f"{it:4d} D {d_loss.item():.3f} G {g_loss.item():.3f} "
                  f"mean {mean:.3f} std {std:.3f} max {peak:.3f}")


if __name__ == "__main__":
    main()
