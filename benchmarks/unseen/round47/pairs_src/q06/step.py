"""GAN for synthetic seismograms: 1-D convolutional critic, hinge loss, lazy gradient penalty. torch_xla."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEN, LAT, CH, BATCH = 16, 6, 6, 4
R1_EVERY, R1_GAMMA = 4, 2.0


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LAT, CH * LEN // 2)
        self.up = nn.ConvTranspose1d(CH, CH, 4, stride=2, padding=1)
        self.out = nn.Conv1d(CH, 1, 5, padding=2)

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, CH, LEN // 2)
        return torch.tanh(self.out(F.leaky_relu(self.up(h), 0.2)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(1, CH, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(CH, CH, 3, stride=2, padding=1)
        self.fc = nn.Linear(CH * LEN // 4, 1)

    def forward(self, x):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h))
        return self.fc(h.flatten(1)).squeeze(1)


def r1(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return 0.5 * R1_GAMMA * grad.pow(2).sum((1, 2)).mean()


def train_step(step, gen, critic, opt_g, opt_c, real, z_c, z_g):
    # critic
    with torch.no_grad():
        fake = gen(z_c)
    c_loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
    if step % R1_EVERY == 0:
        c_loss = c_loss + R1_EVERY * r1(critic, real)
    opt_c.zero_grad()
    c_loss.backward()
    opt_c.step()

    # generator
    critic.requires_grad_(False)
    g_loss = -critic(gen(z_g)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    critic.requires_grad_(True)
    return c_loss.detach(), g_loss.detach()


def live(gen, critic, opt_g, opt_c):
    out = []
    for m, o in ((gen, opt_g), (critic, opt_c)):
        ps = list(m.parameters())
        out += ps + [p.grad for p in ps]
        for p in ps:
            out += [o.state[p]["exp_avg"], o.state[p]["exp_avg_sq"]]
    return out


def main(dumps):
    """dumps: pairs STEP=PATH"""
    where = dict((int(d.split("=")[0]), d.split("=")[1]) for d in dumps)
    torch.manual_seed(21)
    dev = torch_xla.device()
    gen, critic = Generator().to(dev), Critic().to(dev)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=4e-4, betas=(0.5, 0.99))
    torch_xla.sync()
    rng = torch.Generator().manual_seed(22)
    for step in range(9):
        real = torch.sin(torch.rand(BATCH, 1, 1, generator=rng) * torch.arange(LEN)).to(dev)
        z_c, z_g = (torch.randn(BATCH, LAT, generator=rng).to(dev) for _ in range(2))
        res = train_step(step, gen, critic, opt_g, opt_c, real, z_c, z_g)
        if step in where:
            with open(where[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(gen, critic, opt_g, opt_c) + list(res)))
        torch_xla.sync()
        print(step, [round(r.item(), 5) for r in res])


if __name__ == "__main__":
    main(sys.argv[1:])
