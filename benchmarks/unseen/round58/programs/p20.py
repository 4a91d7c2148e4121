"""Energy-based model on 2-D mixtures: persistent Langevin chains and contrastive divergence."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class RingMixture:
    def __init__(self, modes=6, radius=1.5, std=0.12, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        ang = torch.arange(modes) * (2 * math.pi / modes)
        self.centers = radius * torch.stack([ang.cos(), ang.sin()], -1)
        self.std = std

    def sample(self, n):
        k = torch.randint(len(self.centers), (n,), generator=self.gen)
        return self.centers[k] + self.std * torch.randn(n, 2, generator=self.gen)


class Energy(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lift = nn.Linear(2, hidden)
        self.body = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU())
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(torch.sin(self.lift(x)))
        return self.out(h).squeeze(-1) + 0.05 * (x ** 2).sum(-1)


class ActivationTap:
    """Collects what the tapped layers put out in the last forward passes."""

    def __init__(self, *kinds):
        self.kinds = kinds
        self.values = []

    def attach(self, model):
        for m in model.modules():
            if isinstance(m, self.kinds):
                m.register_forward_hook(self._keep)
        return self

    def _keep(self, module, args, output):
        self.values.append(output)

    def reset(self):
        self.values = []

    def penalty(self):
        return torch.stack([v.square().mean() for v in self.values]).mean()


class Chains:
    """Persistent negative chains, refreshed now and then from noise."""

    def __init__(self, n, device, step_size=0.02, noise=0.05, restart=0.05):
        self.x = 2 * torch.randn(n, 2, device=device)
        self.step_size, self.noise, self.restart = step_size, noise, restart

    def advance(self, energy, k):
        fresh = 2 * torch.randn_like(self.x)
        keep = (torch.rand(self.x.shape[0], 1, device=self.x.device) > self.restart).float()
        x = keep * self.x + (1 - keep) * fresh
        for _ in range(k):
            x = x.detach().requires_grad_(True)
            grad, = torch.autograd.grad(energy(x).sum(), x)
            x = x - self.step_size * grad.clamp(-5, 5) + self.noise * torch.randn_like(x)
        self.x = x.detach()
        return self.x


class Trainer:
    def __init__(self, energy, chains, lr=0.02, reg=0.05, langevin=3):
        self.energy, self.chains = energy, chains
        self.reg, self.langevin = reg, langevin
        self.tap = ActivationTap(nn.Linear)
        self.opt = torch.optim.SGD(energy.parameters(), lr=lr, momentum=0.5)

    def negatives(self):
        self.energy.requires_grad_(False)
        fake = self.chains.advance(self.energy, self.langevin)
        self.energy.requires_grad_(True)
        return fake

    def step(self, real):
        fake = self.negatives()
        self.tap.attach(self.energy)
        self.tap.reset()
        gap = self.energy(real).mean() - self.energy(fake).mean()
        loss = gap + self.reg * self.tap.penalty()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.tap.reset()
        return gap.detach()


@torch.no_grad()
def mode_share(chains, centers):
    d = torch.cdist(chains.x, centers)
    return (d.min(-1).values < 0.5).float().mean()


def main():
    torch.manual_seed(12)
    device = xm.xla_device()
    data = RingMixture(seed=4)
    energy = Energy().to(device)
    chains = Chains(64, device)
    trainer = Trainer(energy, chains)
    centers = data.centers.to(device)
    xm.mark_step()

    gaps = []
    for step in range(1, 19):
        gap = trainer.step(data.sample(64).to(device))
        xm.mark_step()
        gaps.append(gap)
        if step % 6 == 0:
            share = mode_share(chains, centers).item()
            mean_gap = torch.stack(gaps[-6:]).mean().item()
            print(f"step {step:3d} gap {mean_gap:+.4f} near modes {share:.2f}")


if __name__ == "__main__":
    main()
