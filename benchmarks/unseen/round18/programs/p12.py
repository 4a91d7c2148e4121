# Small WGAN for 2-channel sensor traces: three-to-one critic schedule, lazy
# gradient penalty, averaged generator for sampling.
import argparse
import copy

import torch
from torch import nn, autograd
import torch_xla

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--iters", type=int, default=60, help="critic updates")
PARSER.add_argument("--critic-per-gen", type=int, default=3)
PARSER.add_argument("--penalty-every", type=int, default=4)
PARSER.add_argument("--penalty-weight", type=float, default=8.0)
PARSER.add_argument("--sample-every", type=int, default=20)
PARSER.add_argument("--batch", type=int, default=16)
PARSER.add_argument("--latent", type=int, default=8)
PARSER.add_argument("--length", type=int, default=24)


def generator(latent, length):
    return nn.Sequential(
        nn.Linear(latent, 48), nn.LeakyReLU(0.2),
        nn.Linear(48, 48), nn.LeakyReLU(0.2),
        nn.Linear(48, 2 * length), nn.Unflatten(1, (2, length)), nn.Tanh(),
    )


def critic():
    return nn.Sequential(
        nn.Conv1d(2, 12, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
        nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.LazyLinear(1),
    )


def real_traces(n, length, gen):
    """Damped sines with a random phase on both channels."""
    t = torch.linspace(0, 3, length)
    phase = torch.rand(n, 1, generator=gen) * 6.28
    freq = 2 + torch.rand(n, 1, generator=gen)
    a = torch.sin(freq * t + phase) * torch.exp(-0.3 * t)
    b = torch.cos(freq * t + phase) * torch.exp(-0.3 * t)
    return torch.stack([a, b], 1)


class Averager:
    """Shadow copy of the generator, with the usual ramp of the decay."""

    def __init__(self, net, top=0.98):
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.top = top
        self.n = 0

    @torch.no_grad()
    def update(self, net):
        self.n += 1
        d = min(self.top, 1 - (self.n + 1) ** -0.75)
        for s, p in zip(self.net.parameters(), net.parameters()):
            s.mul_(d).add_(p, alpha=1 - d)


def penalty(net, real, fake, eps):
    mid = (eps * real + (1 - eps) * fake).requires_grad_(True)
    (g,) = autograd.grad(net(mid).sum(), mid, create_graph=True)
    return ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()


class Trainer:
    def __init__(self, args):
        self.args = args
        self.dev = torch_xla.device()
        self.host = torch.Generator().manual_seed(5)
        self.G = generator(args.latent, args.length).to(self.dev)
        d = critic()
        d(torch.zeros(1, 2, args.length))
        self.D = d.to(self.dev)
        self.og = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.od = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.avg = Averager(self.G)
        self.fixed = torch.randn(8, args.latent, generator=self.host).to(self.dev)
        torch_xla.sync()

    def noise(self):
        return torch.randn(self.args.batch, self.args.latent, generator=self.host).to(self.dev)

    def critic_step(self, i):
        a = self.args
        real = real_traces(a.batch, a.length, self.host).to(self.dev)
        with torch.no_grad():
            fake = self.G(self.noise())
        gap = self.D(fake).mean() - self.D(real).mean()
        loss = gap
        if i % a.penalty_every == 0:
            eps = torch.rand(a.batch, 1, 1, generator=self.host).to(self.dev)
            loss = loss + a.penalty_weight * a.penalty_every * penalty(self.D, real, fake, eps)
        self.od.zero_grad(set_to_none=True)
        loss.backward()
        self.od.step()
        torch_xla.sync()
        return gap.detach()

    def generator_step(self):
        self.D.requires_grad_(False)
        loss = -self.D(self.G(self.noise())).mean()
        self.og.zero_grad(set_to_none=True)
        loss.backward()
        self.og.step()
        self.D.requires_grad_(True)
        self.avg.update(self.G)
        torch_xla.sync()

    def samples(self):
        with torch.no_grad():
            out = self.avg.net(self.fixed)
        torch_xla.sync()
        return out.cpu()

    def run(self):
        a = self.args
        for i in range(1, a.iters + 1):
            for g in self.od.param_groups + self.og.param_groups:
                g["lr"] = 1e-3 * (1 - 0.9 * i / a.iters)
            gap = self.critic_step(i)
            if i % a.critic_per_gen == 0:
                self.generator_step()
            if i % 10 == 0:
                print(f"{i:4d} critic gap {gap.item():+.4f}")
            if i % a.sample_every == 0:
                s = self.samples()
                print(f"{i:4d} sample spread {s.std():.4f} energy {s.pow(2).mean():.4f}")


if __name__ == "__main__":
    Trainer(PARSER.parse_args()).run()
