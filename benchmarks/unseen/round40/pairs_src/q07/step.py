"""GAN for synthetic smart-meter day profiles; non-saturating loss, R1 penalty on every fourth critic step.

a.hlo: the step with index 3, b.hlo: the step with index 4 of one run.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", HERE)
DUMPS = {3: "a.hlo", 4: "b.hlo"}
R1_EVERY, R1_GAMMA = 4, 2.0


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class Critic(nn.Module):
    def __init__(self, hours=12, cond=3, width=10):
        super().__init__()
        self.body = mlp([hours, width, width])
        self.cond = nn.Linear(cond, width, bias=False)
        self.out = nn.Linear(width, 1)

    def forward(self, x, c):
        h = torch.tanh(self.body(x))
        return self.out(h).squeeze(-1) + (h * self.cond(c)).sum(-1)


def critic_loss(critic, real, fake, c, step):
    real_score = critic(real, c)
    loss = F.softplus(-real_score).mean() + F.softplus(critic(fake, c)).mean()
    if step % R1_EVERY == 0:
        x = real.detach().requires_grad_(True)
        grad, = torch.autograd.grad(critic(x, c).sum(), x, create_graph=True)
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * grad.square().sum(-1).mean()
    return loss


def train_step(gen, critic, opt_g, opt_d, step, real, c, z_d, z_g):
    opt_d.zero_grad(set_to_none=True)
    fake = gen(torch.cat([z_d, c], -1)).detach()
    loss_d = critic_loss(critic, real, fake, c, step)
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad(set_to_none=True)
    loss_g = F.softplus(-critic(gen(torch.cat([z_g, c], -1)), c)).mean()
    loss_g.backward()
    opt_g.step()
    return loss_d, loss_g


def main(steps=5):
    dev = torch_xla.device()
    torch.manual_seed(31)
    gen, critic = mlp([4 + 3, 10, 12]), Critic()
    data = [(torch.randn(5, 12), torch.eye(3)[torch.randint(0, 3, (5,))], torch.randn(5, 4), torch.randn(5, 4))
            for _ in range(steps)]
    gen, critic = gen.to(dev), critic.to(dev)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    for i, batch in enumerate(data):
        losses = train_step(gen, critic, opt_g, opt_d, i, *(t.to(dev) for t in batch))
        if i in DUMPS:
            live = []
            for net, opt in ((gen, opt_g), (critic, opt_d)):
                for p in net.parameters():
                    live += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            live += list(losses)
            with open(os.path.join(OUT, DUMPS[i]), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, [x.item() for x in losses], file=sys.stderr)


if __name__ == "__main__":
    main()
