"""Small image GAN (blobs), hinge loss, several critic updates, lazy R1 penalty, EMA generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

Z, RES, BATCH = 16, 16, 16
STEPS, N_CRITIC, R1_EVERY, R1_GAMMA, PREVIEW = 60, 3, 8, 1.0, 15


def real_batch(gen, n=BATCH):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, RES), torch.linspace(-1, 1, RES), indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1, generator=gen) - 0.5
    w = 0.1 + 0.2 * torch.rand(n, 1, 1, generator=gen)
    return (2 * torch.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / w) - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.fc = nn.Linear(Z, ch * 16)
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.rgb = nn.Conv2d(ch, 1, 1)
        self.ch = ch

    @staticmethod
    def up(x):
        b, c, h, w = x.shape
        return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)

    def forward(self, z):
        x = self.fc(z).view(-1, self.ch, 4, 4)
        x = F.leaky_relu(self.c1(self.up(x)), 0.2)
        x = F.leaky_relu(self.c2(self.up(x)), 0.2)
        return torch.tanh(self.rgb(x))


class Critic(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, ch * 2, 3, stride=2, padding=1)
        self.fc = nn.Linear(ch * 2 * 16, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.pow(2).sum(dim=(1, 2, 3)).mean()


@torch.no_grad()
def ema_update(avg, net, decay):
    for a, p in zip(avg.parameters(), net.parameters()):
        a.mul_(decay).add_(p, alpha=1 - decay)


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    device = torch_xla.device()
    g, d = Generator().to(device), Critic().to(device)
    g_ema = copy.deepcopy(g).eval().requires_grad_(False)
    opt_g = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.0, 0.99))
    z_fixed = torch.randn(8, Z, generator=gen).to(device)
    g_loss = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(STEPS):
        real = real_batch(gen).to(device)
        z = torch.randn(BATCH, Z, generator=gen).to(device)

        with torch.no_grad():
            fake = g(z)
        d_loss = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake)).mean()
        if step % R1_EVERY == 0:
            d_loss = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(d, real)
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        if step % N_CRITIC == N_CRITIC - 1:
            d.requires_grad_(False)
            z = torch.randn(BATCH, Z, generator=gen).to(device)
            g_loss = -d(g(z)).mean()
            opt_g.zero_grad(set_to_none=True)
            g_loss.backward()
            opt_g.step()
            ema_update(g_ema, g, min(0.99, (1 + step) / (10 + step)))
            g_loss = g_loss.detach()
            d.requires_grad_(True)
            torch_xla.sync()

        if (step + 1) % PREVIEW == 0:
            with torch.no_grad():
                img = g_ema(z_fixed)
            torch_xla.sync()
            img = img.cpu()
            print(f"step {step + 1:3d} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                  f"img [{img.min():.2f}, {img.max():.2f}]")


if __name__ == "__main__":
    main()
