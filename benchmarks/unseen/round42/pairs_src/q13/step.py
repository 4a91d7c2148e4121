"""Tiny 1-D waveform GAN: hinge-free (softplus) losses, lazy regularisation of the critic.

usage: step.py a.hlo b.hlo      (graphs of step 7 and of step 8)
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

B, Z, LEN = 4, 6, 32
R1_GAMMA, R1_EVERY = 2.0, 4
EMA = 0.98


class Gen(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(Z, ch * LEN // 4)
        self.c1 = nn.Conv1d(ch, ch, 5, padding=2)
        self.c2 = nn.Conv1d(ch, 1, 5, padding=2)

    @staticmethod
    def up(x):
        return x.unsqueeze(-1).expand(*x.shape, 2).reshape(x.shape[0], x.shape[1], -1)

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch, LEN // 4)
        h = F.leaky_relu(self.c1(self.up(h)), 0.2)
        return torch.tanh(self.c2(self.up(h)))


class Critic(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.c1 = nn.Conv1d(1, ch, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(ch, ch, 5, stride=2, padding=2)
        self.fc = nn.Linear(ch * LEN // 4, 1)

    def forward(self, x):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h))
        return self.fc(h.flatten(1)).squeeze(-1)


def train_step(i, real, z1, z2, G, D, G_ema, opt_g, opt_d):
    stats = {}
    # --- critic
    opt_d.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = G(z1)
    d_loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    d_loss.backward()
    if i % R1_EVERY == 0:
        x = real.detach().requires_grad_(True)
        (g,) = torch.autograd.grad(D(x).sum(), x, create_graph=True)
        r1 = g.square().sum(dim=(1, 2)).mean()
        (r1 * (0.5 * R1_GAMMA * R1_EVERY)).backward()
        stats["r1"] = r1.detach()
    opt_d.step()
    stats["d"] = d_loss.detach()

    # --- generator
    opt_g.zero_grad(set_to_none=True)
    D.requires_grad_(False)
    g_loss = F.softplus(-D(G(z2))).mean()
    g_loss.backward()
    D.requires_grad_(True)
    opt_g.step()
    stats["g"] = g_loss.detach()
    with torch.no_grad():
        for e, p in zip(G_ema.parameters(), G.parameters()):
            e.mul_(EMA).add_(p, alpha=1 - EMA)
    return stats


def pending(stats, nets, opts):
    out = [stats[k] for k in sorted(stats)]
    for net in nets:
        out += list(net.parameters())
    for opt in opts:
        for grp in opt.param_groups:
            for p in grp["params"]:
                out.append(p.grad)
                st = opt.state[p]
                out += [st[k] for k in ("exp_avg", "exp_avg_sq")]
    return out


def main(paths):
    want = dict(zip((7, 8), paths))
    dev = torch_xla.device()
    torch.manual_seed(11)
    G, D, G_ema = Gen().to(dev), Critic().to(dev), Gen().to(dev)
    G_ema.load_state_dict(G.state_dict())
    G_ema.requires_grad_(False)
    # lazy regularisation: shrink lr and betas of the critic accordingly
    c = R1_EVERY / (R1_EVERY + 1)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3 * c, betas=(0.0 ** c, 0.99 ** c))
    gen = torch.Generator().manual_seed(5)
    torch_xla.sync()
    t = torch.linspace(0, 6.28, LEN)
    for i in range(9):
        f = torch.rand(B, 1, 1, generator=gen) * 4 + 1
        real = torch.sin(f * t) * torch.exp(-t / 3)
        z1, z2 = (torch.randn(B, Z, generator=gen).to(dev) for _ in range(2))
        stats = train_step(i, real.to(dev), z1, z2, G, D, G_ema, opt_g, opt_d)
        if i in want:
            with open(want[i], "w") as fh:
                fh.write(torch_xla._XLAC._get_xla_tensors_hlo(
                    pending(stats, (G, D, G_ema), (opt_g, opt_d))))
        torch_xla.sync()
        print(i, {k: round(v.item(), 4) for k, v in stats.items()})


if __name__ == "__main__":
    main(sys.argv[1:3])
