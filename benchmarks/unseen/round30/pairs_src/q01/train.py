"""Tiny GAN on 16x16 blobs (TPU port of the old CUDA script)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    z_dim=8,
    width=8,
    batch=4,
    lr_g=2e-4,
    lr_d=4e-4,
    betas=(0.0, 0.99),
    r1_gamma=10.0,
    d_reg_every=4,
    total_steps=9,
)


class Generator(nn.Module):
    def __init__(self, z_dim, width):
        super().__init__()
        self.fc = nn.Linear(z_dim, width * 4 * 4)
        self.up1 = nn.Conv2d(width, width, 3, padding=1)
        self.to_rgb = nn.Conv2d(width, 1, 1)
        self.width = width

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width, 4, 4)
        h = h[:, :, :, None, :, None].expand(-1, -1, -1, 4, -1, 4).reshape(-1, self.width, 16, 16)
        h = F.leaky_relu(self.up1(h), 0.2)
        return torch.tanh(self.to_rgb(h))


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 4, stride=2, padding=1)
        self.c2 = nn.Conv2d(width, width * 2, 4, stride=2, padding=1)
        self.head = nn.Linear(width * 2 * 4 * 4, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.head(h.flatten(1)).squeeze(-1)


def blobs(n, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    c = torch.rand(n, 2, generator=gen) - 0.5
    d = (xx[None] - c[:, :1, None]) ** 2 + (yy[None] - c[:, 1:, None]) ** 2
    return (2 * torch.exp(-8 * d) - 1).unsqueeze(1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        torch.manual_seed(7)
        self.G = Generator(cfg["z_dim"], cfg["width"]).to(self.device)
        self.D = Discriminator(cfg["width"]).to(self.device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=cfg["lr_g"], betas=cfg["betas"])
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=cfg["lr_d"], betas=cfg["betas"])
        self.gen = torch.Generator().manual_seed(11)

    def sample_z(self):
        z = torch.randn(self.cfg["batch"], self.cfg["z_dim"], generator=self.gen)
        return z.to(self.device)

    def d_step(self, real, it):
        cfg = self.cfg
        fake = self.G(self.sample_z()).detach()
        do_reg = it % cfg["d_reg_every"] == 0
        real.requires_grad_(do_reg)
        out_real = self.D(real)
        loss = F.softplus(-out_real).mean() + F.softplus(self.D(fake)).mean()
        if do_reg:
            (grad,) = torch.autograd.grad(out_real.sum(), real, create_graph=True)
            r1 = grad.square().sum([1, 2, 3]).mean()
            loss = loss + 0.5 * cfg["r1_gamma"] * cfg["d_reg_every"] * r1
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.sample_z()))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        for p in self.D.parameters():
            p.requires_grad_(True)
        return loss.detach()

    def run(self):
        for it in range(self.cfg["total_steps"]):
            real = blobs(self.cfg["batch"], self.gen).to(self.device)
            ld = self.d_step(real, it)
            lg = self.g_step()
            xm.mark_step()
            if it % 4 == 3:
                print(f"it {it} d {ld.item():.4f} g {lg.item():.4f}")


if __name__ == "__main__":
    Trainer(CFG).run()
