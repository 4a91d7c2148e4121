"""GAN for 16x16 glyphs. Non-saturating loss, lazy R1 regularisation (StyleGAN2 recipe)."""
import dataclasses

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn, optim


@dataclasses.dataclass(frozen=True)
class HParams:
    z_dim: int = 16
    width: int = 48
    size: int = 16
    batch: int = 12
    d_lr: float = 2e-3
    g_lr: float = 1e-3
    r1_gamma: float = 2.0
    d_reg_interval: int = 4
    ema_decay: float = 0.995
    steps: int = 10


class Generator(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.fc1 = nn.Linear(hp.z_dim, hp.width)
        self.fc2 = nn.Linear(hp.width, hp.width)
        self.out = nn.Linear(hp.width, hp.size * hp.size)

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(dim=1, keepdim=True) + 1e-8)
        h = F.leaky_relu(self.fc1(z), 0.2)
        h = F.leaky_relu(self.fc2(h), 0.2)
        return torch.tanh(self.out(h))


class Discriminator(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.fc1 = nn.Linear(hp.size * hp.size, hp.width)
        self.fc2 = nn.Linear(hp.width, hp.width)
        self.out = nn.Linear(hp.width, 1)

    def forward(self, img):
        h = F.softplus(self.fc1(img))
        h = F.softplus(self.fc2(h))
        return self.out(h).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    score = disc(real).sum()
    (grad,) = torch.autograd.grad(score, real, create_graph=True)
    return grad.square().sum(dim=1).mean()


class Experiment:
    def __init__(self, hp: HParams, device):
        self.hp, self.device = hp, device
        self.gen = Generator(hp).to(device)
        self.disc = Discriminator(hp).to(device)
        self.ema = {k: v.detach().clone() for k, v in self.gen.named_parameters()}
        self.g_opt = optim.RMSprop(self.gen.parameters(), lr=hp.g_lr)
        self.d_opt = optim.RMSprop(self.disc.parameters(), lr=hp.d_lr)

    def noise(self):
        return torch.randn(self.hp.batch, self.hp.z_dim, device=self.device)

    def d_step(self, real, it):
        with torch.no_grad():
            fake = self.gen(self.noise())
        loss = F.softplus(self.disc(fake)).mean() + F.softplus(-self.disc(real)).mean()
        if it % self.hp.d_reg_interval == 0:
            scale = 0.5 * self.hp.r1_gamma * self.hp.d_reg_interval
            loss = loss + scale * r1_penalty(self.disc, real)
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()
        return loss.detach()

    def g_step(self):
        loss = F.softplus(-self.disc(self.gen(self.noise()))).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        with torch.no_grad():
            for k, v in self.gen.named_parameters():
                self.ema[k].lerp_(v, 1.0 - self.hp.ema_decay)
        return loss.detach()


def glyphs(hp, seed=5):
    gen = torch.Generator().manual_seed(seed)
    strokes = torch.sign(torch.randn(10, hp.size * hp.size, generator=gen))
    while True:
        idx = torch.randint(0, 10, (hp.batch,), generator=gen)
        yield strokes[idx] + 0.05 * torch.randn(hp.batch, hp.size * hp.size, generator=gen)


def main():
    hp = HParams()
    torch.manual_seed(0)
    device = torch_xla.device()
    exp = Experiment(hp, device)
    data = glyphs(hp)
    for it in range(hp.steps):
        real = next(data).to(device)
        d_loss = exp.d_step(real, it)
        g_loss = exp.g_step()
        xm.mark_step()
        if it % 5 == 4:
            xm.master_print(f"it {it:4d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}")


main()
