"""Hinge GAN on 16x16 blob images: two critic updates per generator update, R1 every fourth critic update."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z_DIM = 16
BATCH = 8
D_PER_G = 2
R1_EVERY = 4
R1_GAMMA = 5.0
SAMPLE_EVERY = 10


class Generator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Linear(Z_DIM, width * 4 * 4)
        self.up1 = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(width, 8, 4, stride=2, padding=1)
        self.out = nn.Conv2d(8, 1, 3, padding=1)
        self.width = width

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width, 4, 4)
        h = F.leaky_relu(self.up1(h), 0.2)
        h = F.leaky_relu(self.up2(h), 0.2)
        return torch.tanh(self.out(h))


class Critic(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(width, width * 2, 3, stride=2, padding=1)
        self.fc = nn.Linear(width * 2 * 16, 1)

    def forward(self, x):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h))
        return self.fc(h.flatten(1)).squeeze(1)


class BlobSource:
    """Endless batches of one or two soft discs on black."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        grid = torch.linspace(-1, 1, 16)
        self.yy, self.xx = torch.meshgrid(grid, grid, indexing="ij")

    def next(self):
        c = torch.rand(BATCH, 2, 2, generator=self.gen) * 1.4 - 0.7
        r = torch.rand(BATCH, 2, generator=self.gen) * 0.2 + 0.1
        r[:, 1] *= (torch.rand(BATCH, generator=self.gen) < 0.5).float()
        d2 = (self.yy - c[..., 0, None, None]) ** 2 + (self.xx - c[..., 1, None, None]) ** 2
        img = torch.exp(-d2 / (r[..., None, None] ** 2 + 1e-3)).amax(dim=1, keepdim=True)
        return img * 2 - 1


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    scores = critic(real)
    (grad,) = torch.autograd.grad(scores.sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(dim=1).mean()


@torch.no_grad()
def update_average(avg, net, decay):
    for pa, p in zip(avg.parameters(), net.parameters()):
        pa.lerp_(p, 1.0 - decay)


def set_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    gen, critic = Generator().to(device), Critic().to(device)
    gen_avg = copy.deepcopy(gen).eval()
    set_grad(gen_avg, False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.99))
    source = BlobSource(1)
    noise = torch.Generator().manual_seed(2)
    fixed_z = torch.randn(BATCH, Z_DIM, generator=noise).to(device)
    torch_xla.sync()

    d_updates = 0
    for step in range(60):
        real = source.next().to(device)
        z = torch.randn(BATCH, Z_DIM, generator=noise).to(device)
        if step % (D_PER_G + 1) < D_PER_G:
            set_grad(critic, True)
            with torch.no_grad():
                fake = gen(z)
            d_loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
            if d_updates % R1_EVERY == 0:
                d_loss = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(critic, real)
            opt_d.zero_grad(set_to_none=True)
            d_loss.backward()
            opt_d.step()
            d_updates += 1
        else:
            set_grad(critic, False)
            g_loss = -critic(gen(z)).mean()
            opt_g.zero_grad(set_to_none=True)
            g_loss.backward()
            opt_g.step()
            update_average(gen_avg, gen, 0.95)
        torch_xla.sync()

        if (step + 1) % SAMPLE_EVERY == 0:
            with torch.no_grad():
                picture = gen_avg(fixed_z)
                stats = torch.stack([picture.mean(), picture.std(), d_loss.detach()])
            torch_xla.sync()
            stats = stats.cpu()
            print(f"step {step + 1} mean {stats[0]:.3f} std {stats[1]:.3f} d_loss {stats[2]:.3f}")


if __name__ == "__main__":
    main()
