"""Planning by trajectory diffusion (1-D U-Net over the horizon), guided sampling on XLA."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HORIZON, CH, GOALS = 4, 2, 16, 8, 5
TRANS = OBS + ACT


class TimeEmbed(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.Mish(), nn.Linear(2 * d, d))

    def forward(self, t):
        f = torch.exp(torch.arange(self.d // 2, device=t.device) * (-math.log(1e4) / (self.d // 2 - 1)))
        e = t[:, None].float() * f[None]
        return self.mlp(torch.cat([e.sin(), e.cos()], -1))


class ResBlock(nn.Module):
    def __init__(self, i, o, d):
        super().__init__()
        self.c1 = nn.Conv1d(i, o, 5, padding=2)
        self.n1 = nn.GroupNorm(4, o)
        self.emb = nn.Linear(d, o)
        self.c2 = nn.Conv1d(o, o, 5, padding=2)
        self.n2 = nn.GroupNorm(4, o)
        self.skip = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, e):
        h = F.mish(self.n1(self.c1(x))) + self.emb(F.mish(e)).unsqueeze(-1)
        return F.mish(self.n2(self.c2(h))) + self.skip(x)


class TemporalUnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = TimeEmbed(CH)
        self.goal = nn.Embedding(GOALS + 1, CH)
        self.d1 = ResBlock(TRANS, CH, CH)
        self.down = nn.Conv1d(CH, CH, 3, 2, 1)
        self.mid = ResBlock(CH, 2 * CH, CH)
        self.up = nn.ConvTranspose1d(2 * CH, CH, 4, 2, 1)
        self.u1 = ResBlock(2 * CH, CH, CH)
        self.out = nn.Conv1d(CH, TRANS, 1)

    def forward(self, x, t, goal):
        e = self.time(t) + self.goal(goal)
        x = x.transpose(1, 2)
        s = self.d1(x, e)
        h = self.up(self.mid(self.down(s), e))
        return self.out(self.u1(torch.cat([h, s], 1), e)).transpose(1, 2)


def cosine_alphas(n, s=0.008):
    x = np.linspace(0, n, n + 1)
    f = np.cos((x / n + s) / (1 + s) * np.pi / 2) ** 2
    return torch.from_numpy(np.clip(f / f[0], 1e-4, 1.0).astype(np.float32))


class GuidedSampler:
    def __init__(self, net, dev, n_train=100, n_steps=8, eta=0.5, scale=1.6):
        self.net, self.eta, self.scale, self.dev = net, eta, scale, dev
        self.acp = cosine_alphas(n_train).to(dev)
        self.ts = np.linspace(n_train, 0, n_steps + 1).round().astype(np.int64)

    def predict(self, x, t, goal):
        labels = torch.cat([goal, torch.full_like(goal, GOALS)])
        eps = self.net(x.repeat(2, 1, 1), t.repeat(2), labels)
        base, cond = eps.chunk(2)
        return base + self.scale * (cond - base)

    def step(self, x, t, s, goal, start):
        a_t, a_s = self.acp[t][:, None, None], self.acp[s][:, None, None]
        eps = self.predict(x, t, goal)
        x0 = (x - (1 - a_t).sqrt() * eps) / a_t.sqrt()
        x0 = x0.clamp(-1, 1)
        sigma = self.eta * ((1 - a_s) / (1 - a_t) * (1 - a_t / a_s)).clamp(min=0).sqrt()
        x = a_s.sqrt() * x0 + (1 - a_s - sigma ** 2).clamp(min=0).sqrt() * eps
        x = x + sigma * torch.randn_like(x)
        obs = torch.cat([start[:, None], x[:, 1:, :OBS]], 1)
        return torch.cat([obs, x[..., OBS:]], -1)

    @torch.no_grad()
    def plan(self, start, goal):
        n = len(start)
        x = torch.randn(n, HORIZON, TRANS, device=self.dev)
        for t, s in zip(self.ts[:-1], self.ts[1:]):
            tt = torch.full((n,), int(t)).to(self.dev)
            ss = torch.full((n,), int(s)).to(self.dev)
            x = self.step(x, tt, ss, goal, start)
            xm.mark_step()
        return x


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    net = TemporalUnet().to(dev).eval()
    xm.mark_step()
    r = np.random.RandomState(0)
    start = torch.from_numpy(r.uniform(-0.5, 0.5, (6, OBS)).astype(np.float32)).to(dev)
    goal = torch.from_numpy(r.randint(0, GOALS, 6)).to(dev)
    plan = GuidedSampler(net, dev).plan(start, goal)
    print("mean action", plan[..., OBS:].cpu().mean().item(), "spread", plan.cpu().std().item())


if __name__ == "__main__":
    main()
