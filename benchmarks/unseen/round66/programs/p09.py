"""Small convolutional GAN on procedurally drawn glyphs: non-saturating loss, R1 penalty, weight averaging."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 16


def draw_glyphs(n, generator):
    """Bars, crosses and rings at random places."""
    axis = torch.arange(SIZE, dtype=torch.float32)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    cx = torch.randint(5, 11, (n, 1, 1), generator=generator)
    cy = torch.randint(5, 11, (n, 1, 1), generator=generator)
    kind = torch.randint(0, 3, (n, 1, 1), generator=generator)
    bar = ((xx - cx).abs() <= 1) & ((yy - cy).abs() <= 4)
    cross = bar | (((yy - cy).abs() <= 1) & ((xx - cx).abs() <= 4))
    r = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
    ring = (r - 3.5).abs() <= 0.9
    img = torch.where(kind == 0, bar, torch.where(kind == 1, cross, ring)).float()
    return img.unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self, latent=16, width=16):
        super().__init__()
        self.fc = nn.Linear(latent, width * 2 * 16)
        self.up1 = nn.Conv2d(width * 2, width, 3, padding=1)
        self.up2 = nn.Conv2d(width, width, 3, padding=1)
        self.to_gray = nn.Conv2d(width, 1, 1)
        self.width = width

    def forward(self, z):
        z = z * torch.rsqrt(z.pow(2).mean(dim=1, keepdim=True) + 1e-8)
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width * 2, 4, 4)
        for layer in (self.up1, self.up2):
            h = h.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
            h = F.leaky_relu(layer(h), 0.2)
        return torch.tanh(self.to_gray(h))


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width * 2, 4, stride=2, padding=1)
        self.c3 = nn.Conv2d(width * 2, width * 2, 4, stride=2, padding=1)
        self.out = nn.Linear(width * 2 * 16, 1)

    def forward(self, x):
        for layer in (self.c1, self.c2, self.c3):
            x = F.leaky_relu(layer(x), 0.2)
        return self.out(x.flatten(1)).squeeze(1)


def gradient_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    score = critic(real)
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(dim=1).mean()


@torch.no_grad()
def average_weights(avg, net, halflife_steps=20):
    decay = 0.5 ** (1.0 / halflife_steps)
    for a, p in zip(avg.parameters(), net.parameters()):
        a.mul_(decay).add_(p, alpha=1.0 - decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--latent", type=int, default=16)
    parser.add_argument("--r1-gamma", type=float, default=1.0)
    parser.add_argument("--r1-interval", type=int, default=4)
    parser.add_argument("--preview-interval", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(31)
    rng = torch.Generator().manual_seed(31)
    device = xm.xla_device()
    gen, critic = Generator(args.latent).to(device), Critic().to(device)
    avg = copy.deepcopy(gen).requires_grad_(False)
    ratio = args.r1_interval / (args.r1_interval + 1)
    g_opt = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(critic.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99 ** ratio))
    fixed_z = torch.randn(16, args.latent, generator=rng).to(device)

    for step in range(args.steps):
        real = draw_glyphs(args.batch, rng).to(device)
        z = torch.randn(args.batch, args.latent, generator=rng).to(device)
        with torch.no_grad():
            fake = gen(z)
        d_loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
        total = d_loss
        if step % args.r1_interval == 0:
            total = total + 0.5 * args.r1_gamma * args.r1_interval * gradient_penalty(critic, real)
        d_opt.zero_grad(set_to_none=True)
        total.backward()
        d_opt.step()
        xm.mark_step()

        critic.requires_grad_(False)
        z = torch.randn(args.batch, args.latent, generator=rng).to(device)
        g_loss = F.softplus(-critic(gen(z))).mean()
        g_opt.zero_grad(set_to_none=True)
        g_loss.backward()
        g_opt.step()
        average_weights(avg, gen)
        critic.requires_grad_(True)
        xm.mark_step()

        if (step + 1) % args.preview_interval == 0:
            with torch.no_grad():
                ink = (avg(fixed_z) > 0).float().mean()
            xm.mark_step()
            print(f"step {step + 1:3d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  ink {ink.item():.3f}")


if __name__ == "__main__":
    main()
