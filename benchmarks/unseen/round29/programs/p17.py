"""Tiny GAN on rendered blobs. Non-saturating loss, R1 applied lazily as in StyleGAN2."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OPTS = {
    "z_dim": 16,
    "img": 16,
    "batch": 8,
    "iters": 60,
    "lr_g": 1e-3,
    "lr_d": 2e-3,
    "r1_gamma": 1.0,
    "d_reg_every": 8,
    "ema": 0.99,
    "log_every": 20,
}


class Generator(nn.Module):
    def __init__(self, z_dim):
        super().__init__()
        self.fc = nn.Linear(z_dim, 16 * 4 * 4)
        self.up1 = nn.ConvTranspose2d(16, 12, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(12, 1, 4, 2, 1)

    def forward(self, z):
        x = F.leaky_relu(self.fc(z), 0.2).view(-1, 16, 4, 4)
        return torch.tanh(self.up2(F.leaky_relu(self.up1(x), 0.2)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 4, 2, 1)
        self.c2 = nn.Conv2d(12, 16, 4, 2, 1)
        self.fc = nn.Linear(16 * 4 * 4, 1)

    def forward(self, x):
        x = F.softplus(self.c1(x))
        x = F.softplus(self.c2(x))
        return self.fc(x.flatten(1))


def real_blobs(n, size):
    c = torch.rand(n, 2) * 0.6 + 0.2
    s = torch.rand(n, 1, 1) * 0.08 + 0.08
    axis = (torch.arange(size) + 0.5) / size
    d2 = (axis[None, :, None] - c[:, 0, None, None]) ** 2 + (axis[None, None, :] - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-d2 / (2 * s ** 2)) - 1)[:, None]


def set_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


class Loop:
    def __init__(self, opts, device):
        self.o, self.device = opts, device
        self.G = Generator(opts["z_dim"]).to(device)
        self.G_ema = Generator(opts["z_dim"]).to(device).requires_grad_(False)
        self.G_ema.load_state_dict(self.G.state_dict())
        self.D = Discriminator().to(device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=opts["lr_g"], betas=(0.0, 0.99))
        reg = opts["d_reg_every"] / (opts["d_reg_every"] + 1)
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=opts["lr_d"] * reg, betas=(0.0, 0.99 ** reg))

    def noise(self):
        return torch.randn(self.o["batch"], self.o["z_dim"], device=self.device)

    def d_step(self, real):
        set_grad(self.D, True)
        set_grad(self.G, False)
        self.opt_d.zero_grad()
        loss = F.softplus(self.D(self.G(self.noise()))).mean() + F.softplus(-self.D(real)).mean()
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def r1_step(self, real):
        real = real.detach().requires_grad_(True)
        self.opt_d.zero_grad()
        (grad,) = torch.autograd.grad(self.D(real).sum(), real, create_graph=True)
        penalty = grad.square().sum([1, 2, 3]).mean()
        (penalty * (self.o["r1_gamma"] * 0.5 * self.o["d_reg_every"])).backward()
        self.opt_d.step()
        torch_xla.sync()
        return penalty.detach()

    def g_step(self):
        set_grad(self.D, False)
        set_grad(self.G, True)
        self.opt_g.zero_grad()
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for e, p in zip(self.G_ema.parameters(), self.G.parameters()):
                e.lerp_(p, 1 - self.o["ema"])
        torch_xla.sync()
        return loss.detach()


def main():
    torch.manual_seed(0)
    xm.set_rng_state(0)
    loop = Loop(OPTS, torch_xla.device())
    fixed_z = torch.randn(8, OPTS["z_dim"]).to(loop.device)
    torch_xla.sync()
    r1 = None
    for it in range(OPTS["iters"]):
        real = real_blobs(OPTS["batch"], OPTS["img"]).to(loop.device)
        d = loop.d_step(real)
        if it % OPTS["d_reg_every"] == 0:
            r1 = loop.r1_step(real)
        g = loop.g_step()
        if (it + 1) % OPTS["log_every"] == 0:
            with torch.no_grad():
                sample = loop.G_ema(fixed_z)
            torch_xla.sync()
            print(f"{it + 1:4d} D {d.item():.3f} G {g.item():.3f} R1 {r1.item():.3f} pix {sample.cpu().mean():.3f}")


if __name__ == "__main__":
    main()
