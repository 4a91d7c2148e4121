"""Small convolutional GAN on 16x16 textures: two critic updates per generator
update, lazy R1 regularisation, averaged generator, periodic sample statistics."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    z_dim=16, width=16, batch=8, gen_steps=40, critic_per_gen=2,
    r1_every=8, r1_gamma=4.0, ema=0.98, sample_every=10, seed=5,
)


def texture_batches(batch, seed):
    """Endless stream of oriented sinusoidal textures, made on the host."""
    g = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    while True:
        angle = torch.rand(batch, 1, 1, generator=g) * math.pi
        freq = 0.3 + torch.rand(batch, 1, 1, generator=g)
        wave = torch.sin(freq * (xs * angle.cos() + ys * angle.sin()))
        yield (wave + 0.05 * torch.randn(batch, 16, 16, generator=g)).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, z_dim, width):
        super().__init__()
        self.fc = nn.Linear(z_dim, width * 16)
        self.c1 = nn.Conv2d(width, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, 1, 3, padding=1)
        self.width = width

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width, 4, 4)
        h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
        h = F.leaky_relu(self.c1(h), 0.2)
        h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return torch.tanh(self.c2(h))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.out = nn.Linear(width * 16, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.out(h.flatten(1)).squeeze(1)


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.gen = Generator(cfg["z_dim"], cfg["width"]).to(device)
        self.gen_avg = copy.deepcopy(self.gen).requires_grad_(False)
        self.critic = Critic(cfg["width"]).to(device)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.fixed_z = torch.randn(16, cfg["z_dim"]).to(device)
        self.critic_updates = 0

    def noise(self):
        return torch.randn(self.cfg["batch"], self.cfg["z_dim"]).to(self.device)

    def critic_step(self, real):
        regularise = self.critic_updates % self.cfg["r1_every"] == 0
        real = real.to(self.device).requires_grad_(regularise)
        with torch.no_grad():
            fake = self.gen(self.noise())
        score_real, score_fake = self.critic(real), self.critic(fake)
        loss = F.softplus(score_fake).mean() + F.softplus(-score_real).mean()
        if regularise:
            grad, = torch.autograd.grad(score_real.sum(), real, create_graph=True)
            penalty = grad.pow(2).flatten(1).sum(1).mean()
            loss = loss + 0.5 * self.cfg["r1_gamma"] * self.cfg["r1_every"] * penalty
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        self.critic_updates += 1
        xm.mark_step()
        return loss.detach()

    def generator_step(self):
        self.critic.requires_grad_(False)
        loss = F.softplus(-self.critic(self.gen(self.noise()))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        self.critic.requires_grad_(True)
        with torch.no_grad():
            for avg, cur in zip(self.gen_avg.parameters(), self.gen.parameters()):
                avg.lerp_(cur, 1.0 - self.cfg["ema"])
        xm.mark_step()
        return loss.detach()

    @torch.no_grad()
    def sample_stats(self):
        img = self.gen_avg(self.fixed_z)
        stats = torch.stack([img.mean(), img.std(), (img[1:] - img[:-1]).abs().mean()])
        return stats.cpu().tolist()


def main():
    torch.manual_seed(CFG["seed"])
    device = torch_xla.device()
    trainer = Trainer(CFG, device)
    stream = texture_batches(CFG["batch"], CFG["seed"] + 1)
    for it in range(CFG["gen_steps"]):
        for _ in range(CFG["critic_per_gen"]):
            d_loss = trainer.critic_step(next(stream))
        g_loss = trainer.generator_step()
        if (it + 1) % CFG["sample_every"] == 0:
            mean, std, diversity = trainer.sample_stats()
            print(f"{it + 1:4d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  "
                  f"mean {mean:+.3f} std {std:.3f} diversity {diversity:.3f}")


if __name__ == "__main__":
    main()
