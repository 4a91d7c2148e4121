"""WGAN-GP for daily electricity load curves (several feeders at once): one critic update."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUT = sys.argv[1]
B, FEEDERS, HOURS, Z = 6, 3, 24, 5
LAMBDA = 10.0
DRIFT = 1e-3


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z + 7, 8 * 6)
        self.up1 = nn.Conv1d(8, 6, 3, padding=1)
        self.up2 = nn.Conv1d(6, FEEDERS, 3, padding=1)

    def forward(self, z, day):
        h = F.relu(self.fc(torch.cat([z, day], dim=1))).view(-1, 8, 6)
        h = F.relu(self.up1(h.repeat_interleave(2, dim=2)))
        return torch.tanh(self.up2(h.repeat_interleave(2, dim=2)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(FEEDERS, 8, 4, stride=2, padding=1)
        self.c2 = nn.Conv1d(8, 12, 4, stride=2, padding=1)
        self.day = nn.Linear(7, 12)
        self.fc = nn.Linear(12 * 6, 1)

    def forward(self, x, day):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h) + self.day(day).unsqueeze(-1))
        return self.fc(h.flatten(1)).squeeze(1)


def gradient_penalty(critic, real, fake, day, eps):
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix, day)
    (grad,) = torch.autograd.grad(score.sum(), mix, create_graph=True)
    norm = grad.norm(2, dim=1)
    return ((norm - 1) ** 2).mean()


def critic_step(gen, critic, opt, real, day, z, eps):
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = gen(z, day)
    s_real, s_fake = critic(real, day), critic(fake, day)
    wdist = s_real.mean() - s_fake.mean()
    gp = gradient_penalty(critic, real, fake, day, eps)
    loss = -wdist + LAMBDA * gp + DRIFT * s_real.pow(2).mean()
    loss.backward()
    opt.step()
    return wdist.detach(), gp.detach(), loss.detach()


def load_curves(rng):
    h = np.arange(HOURS)
    base = 0.4 * np.sin((h - 8) / 24 * 2 * np.pi)[None, None] + 0.2 * np.sin(h / 6 * np.pi)[None, None]
    x = base * rng.uniform(0.5, 1.5, (B, FEEDERS, 1)) + 0.05 * rng.standard_normal((B, FEEDERS, HOURS))
    return torch.tensor(x, dtype=torch.float32), F.one_hot(torch.tensor(rng.integers(0, 7, B)), 7).float()


def main():
    torch.manual_seed(13)
    rng = np.random.default_rng(4)
    dev = torch_xla.device()
    gen, critic = Generator().to(dev), Critic().to(dev)
    opt = torch.optim.Adam(critic.parameters(), lr=4e-4, betas=(0.5, 0.9))
    for it in range(3):
        real, day = (t.to(dev) for t in load_curves(rng))
        z, eps = torch.randn(B, Z).to(dev), torch.rand(B, 1, 1).to(dev)
        metrics = critic_step(gen, critic, opt, real, day, z, eps)
        if it == 2:
            tensors = list(metrics)
            for p in critic.parameters():
                tensors += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(tensors))
        torch_xla.sync()
        print(it, [m.item() for m in metrics])


if __name__ == "__main__":
    main()
