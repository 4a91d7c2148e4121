import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Options:
    z_dim = 16
    width = 32
    batch = 32
    iters = 160
    d_reg_every = 8
    r1 = 2.0
    ema_decay = 0.995
    lr = 2e-3
    sample_every = 32
    n_sample = 64


class Generator(nn.Module):

    def __init__(self, z_dim, width):
        super().__init__()
        self.fc = nn.Linear(z_dim, width * 16)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width // 2, 3, padding=1)
        self.to_rgb = nn.Conv2d(width // 2, 1, 1)
        self.width = width

    def forward(self, z):
        z = z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8)
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width, 4, 4)
        h = h.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        h = F.leaky_relu(self.conv1(h), 0.2)
        h = F.leaky_relu(self.conv2(h), 0.2)
        return torch.tanh(self.to_rgb(h))


class Critic(nn.Module):

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 2 * width), nn.Softplus(),
            nn.Linear(2 * width, width), nn.Softplus(),
            nn.Linear(width, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


def blobs(rng, n):
    """8x8 images with one gaussian bump."""
    c = rng.uniform(2, 6, (n, 2, 1, 1))
    s = rng.uniform(0.8, 1.8, (n, 1, 1))
    yy, xx = np.mgrid[0:8, 0:8]
    img = np.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) / (2 * s ** 2))
    return torch.from_numpy((2 * img - 1).astype(np.float32))[:, None]


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


@torch.no_grad()
def accumulate(avg, model, decay):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.mul_(decay).add_(p, alpha=1 - decay)


def train(opt):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = xm.xla_device()
    g = Generator(opt.z_dim, opt.width).to(device)
    d = Critic(opt.width).to(device)
    g_ema = copy.deepcopy(g).eval()
    g_optim = torch.optim.Adam(g.parameters(), lr=opt.lr, betas=(0.0, 0.99))
    d_optim = torch.optim.Adam(d.parameters(), lr=opt.lr, betas=(0.0, 0.99))
    sample_z = torch.randn(opt.n_sample, opt.z_dim).to(device)
    r1_value = 0.0

    for i in range(opt.iters):
        real = blobs(rng, opt.batch).to(device)

        set_grad(g, False)
        set_grad(d, True)
        fake = g(torch.randn(opt.batch, opt.z_dim, device=device))
        d_loss = F.softplus(-d(real)).mean() + F.softplus(d(fake)).mean()
        d_optim.zero_grad()
        d_loss.backward()
        d_optim.step()
        xm.mark_step()

        if i % opt.d_reg_every == 0:
            real.requires_grad_(True)
            pred = d(real)
            grad, = torch.autograd.grad(pred.sum(), real, create_graph=True)
            r1_loss = grad.pow(2).flatten(1).sum(1).mean()
            d_optim.zero_grad()
            (opt.r1 / 2 * r1_loss * opt.d_reg_every).backward()
            d_optim.step()
            xm.mark_step()
            r1_value = r1_loss.item()

        set_grad(g, True)
        set_grad(d, False)
        fake = g(torch.randn(opt.batch, opt.z_dim, device=device))
        g_loss = F.softplus(-d(fake)).mean()
        g_optim.zero_grad()
        g_loss.backward()
        g_optim.step()
        accumulate(g_ema, g, opt.ema_decay)
        xm.mark_step()

        if (i + 1) % opt.sample_every == 0:
            with torch.no_grad():
                grid = g_ema(sample_z)
            xm.mark_step()
            img = grid.cpu().numpy()
            print(f"[{i + 1:4d}] d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {r1_value:.4f} "
                  f"sample mean {img.mean():+.3f} std {img.std():.3f}")


if __name__ == "__main__":
    train(Options())
