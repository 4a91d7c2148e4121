"""Tabular GAN with a conditional generator, non-saturating loss."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    latent_dim=12,
    n_features=10,
    n_classes=4,
    hidden=32,
    batch_size=16,
    g_lr=1.5e-3,
    d_lr=2e-3,
    betas=(0.5, 0.99),
    r1_gamma=2.0,
    d_reg_interval=4,
    iters=9,
    seed=11,
)


class Generator(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg["n_classes"], cfg["latent_dim"])
        self.fc1 = nn.Linear(2 * cfg["latent_dim"], cfg["hidden"])
        self.fc2 = nn.Linear(cfg["hidden"], cfg["hidden"])
        self.out = nn.Linear(cfg["hidden"], cfg["n_features"])

    def forward(self, z, y):
        h = torch.cat([z, self.embed(y)], dim=1)
        h = F.leaky_relu(self.fc1(h), 0.2)
        h = F.leaky_relu(self.fc2(h), 0.2)
        return torch.tanh(self.out(h))


class Discriminator(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.fc1 = nn.Linear(cfg["n_features"], cfg["hidden"])
        self.fc2 = nn.Linear(cfg["hidden"], cfg["hidden"])
        self.score = nn.Linear(cfg["hidden"], 1)
        self.proj = nn.Embedding(cfg["n_classes"], cfg["hidden"])

    def forward(self, x, y):
        h = F.silu(self.fc1(x))
        h = F.silu(self.fc2(h))
        return self.score(h).squeeze(1) + (self.proj(y) * h).sum(1)


class TabularGAN:

    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.G = Generator(cfg).to(device)
        self.D = Discriminator(cfg).to(device)
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=cfg["g_lr"], betas=cfg["betas"])
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=cfg["d_lr"], betas=cfg["betas"])

    def d_loss(self, real, y, z, it):
        with torch.no_grad():
            fake = self.G(z, y)
        regularize = it % self.cfg["d_reg_interval"] == 0
        if regularize:
            real = real.requires_grad_(True)
        real_logits = self.D(real, y)
        fake_logits = self.D(fake, y)
        loss = F.softplus(fake_logits).mean() + F.softplus(-real_logits).mean()
        if regularize:
            grad, = torch.autograd.grad(real_logits.sum(), real, create_graph=True)
            penalty = grad.pow(2).sum(dim=1).mean()
            loss = loss + 0.5 * self.cfg["r1_gamma"] * self.cfg["d_reg_interval"] * penalty
        return loss

    def train_iter(self, real, y, it):
        z = torch.randn(real.size(0), self.cfg["latent_dim"]).to(self.device)

        self.d_opt.zero_grad(set_to_none=True)
        d_loss = self.d_loss(real, y, z, it)
        d_loss.backward()
        self.d_opt.step()

        self.g_opt.zero_grad(set_to_none=True)
        self.D.requires_grad_(False)
        g_loss = F.softplus(-self.D(self.G(z, y), y)).mean()
        g_loss.backward()
        self.g_opt.step()
        self.D.requires_grad_(True)
        return d_loss.detach(), g_loss.detach()


def sample_table(rng, cfg):
    y = rng.integers(0, cfg["n_classes"], size=cfg["batch_size"])
    centers = np.linspace(-0.8, 0.8, cfg["n_classes"])[y][:, None]
    x = centers + 0.1 * rng.standard_normal((cfg["batch_size"], cfg["n_features"]))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    device = torch_xla.device()
    gan = TabularGAN(cfg, device)
    torch_xla.sync()
    for it in range(cfg["iters"]):
        x, y = sample_table(rng, cfg)
        d, g = gan.train_iter(x.to(device), y.to(device), it)
        xm.mark_step()
        print(f"[{it:03d}] d={d.item():.4f} g={g.item():.4f}")


if __name__ == "__main__":
    main(CFG)
