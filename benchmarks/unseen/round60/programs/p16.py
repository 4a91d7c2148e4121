"""Style-based generator on 16x16 sprites with lazily applied R1 and path-length terms."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

Z, W, SIDE, BATCH = 16, 16, 16, 12
D_REG_EVERY, G_REG_EVERY = 4, 6


def sprites(n, gen):
    """Filled ellipses with a soft rim and one of two palettes."""
    axis = torch.linspace(-1, 1, SIDE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    p = torch.rand(n, 5, 1, 1, generator=gen)
    r = ((xx - 0.6 * p[:, 0] + 0.3) / (0.35 + 0.4 * p[:, 1])) ** 2 + ((yy - 0.6 * p[:, 2] + 0.3) / (0.35 + 0.4 * p[:, 3])) ** 2
    body = torch.sigmoid(6 * (1 - r))
    warm = (p[:, 4] > 0.5).float()
    img = torch.stack([body * (0.4 + 0.6 * warm), body * 0.5, body * (1 - 0.6 * warm)], 1)
    return img * 2 - 1


class Modulated(nn.Module):
    def __init__(self, cin, cout, demodulate=True):
        super().__init__()
        self.style = nn.Linear(W, cin)
        nn.init.ones_(self.style.bias)
        self.weight = nn.Parameter(torch.randn(cout, cin, 3, 3) / math.sqrt(cin * 9))
        self.bias = nn.Parameter(torch.zeros(cout))
        self.demodulate = demodulate

    def forward(self, x, w):
        s = self.style(w)
        x = F.conv2d(x * s[:, :, None, None], self.weight, padding=1)
        if self.demodulate:
            scale = torch.rsqrt((self.weight.square().sum((2, 3)) @ s.square().t()).t() + 1e-8)
            x = x * scale[:, :, None, None]
        return x + self.bias.view(1, -1, 1, 1)


class Generator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(Z, W), nn.LeakyReLU(0.2), nn.Linear(W, W))
        self.const = nn.Parameter(torch.randn(1, ch, 4, 4))
        self.c1, self.c2 = Modulated(ch, ch), Modulated(ch, ch)
        self.rgb = Modulated(ch, 3, demodulate=False)

    def map(self, z):
        return self.mapping(z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8))

    def synthesize(self, w):
        x = self.const.expand(w.shape[0], -1, -1, -1)
        for conv in (self.c1, self.c2):
            x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
            x = F.leaky_relu(conv(x, w), 0.2)
        return self.rgb(x, w)

    def forward(self, z):
        return self.synthesize(self.map(z))


class Critic(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ch, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch, 3, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(),
        )
        self.out = nn.Linear(ch * 16 + 1, 1)

    def forward(self, x):
        h = self.net(x)
        spread = h.std(0).mean().expand(h.shape[0], 1)
        return self.out(torch.cat([h, spread], 1)).squeeze(1)


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.square().sum((1, 2, 3)).mean()


def path_penalty(gen, z, mean_path):
    w = gen.map(z)
    img = gen.synthesize(w)
    noise = torch.randn_like(img) / SIDE
    grad, = torch.autograd.grad((img * noise).sum(), w, create_graph=True)
    length = grad.square().sum(1).sqrt()
    mean_path.lerp_(length.detach().mean(), 0.05)
    return (length - mean_path).square().mean()


def latents(device):
    return torch.randn(BATCH, Z, device=device)


def main():
    torch.manual_seed(12)
    device = torch_xla.device()
    torch_xla.manual_seed(12)
    gen, critic = Generator().to(device), Critic().to(device)
    shadow = copy.deepcopy(gen).requires_grad_(False)
    g_ratio, d_ratio = G_REG_EVERY / (G_REG_EVERY + 1), D_REG_EVERY / (D_REG_EVERY + 1)
    g_opt = torch.optim.Adam(gen.parameters(), lr=3e-3 * g_ratio, betas=(0.0, 0.99 ** g_ratio))
    d_opt = torch.optim.Adam(critic.parameters(), lr=3e-3 * d_ratio, betas=(0.0, 0.99 ** d_ratio))
    mean_path = torch.zeros((), device=device)
    data = torch.Generator().manual_seed(3)
    torch_xla.sync()

    for step in range(30):
        real = sprites(BATCH, data).to(device)
        with torch.no_grad():
            fake = gen(latents(device))
        d_loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
        if step % D_REG_EVERY == 0:
            d_loss = d_loss + 0.5 * D_REG_EVERY * r1_penalty(critic, real)
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        torch_xla.sync()

        g_loss = F.softplus(-critic(gen(latents(device)))).mean()
        if step % G_REG_EVERY == 0:
            g_loss = g_loss + G_REG_EVERY * path_penalty(gen, latents(device), mean_path)
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        with torch.no_grad():
            for s, p in zip(shadow.parameters(), gen.parameters()):
                s.lerp_(p, 0.02)
        torch_xla.sync()
        if step % 10 == 9:
            xm.master_print(f"step {step + 1}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  path {mean_path.item():.4f}")


if __name__ == "__main__":
    main()
