"""Physics-informed network for the viscous Burgers equation, u_t + u u_x = nu u_xx."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

NU = 0.01 / math.pi
RAMP_STEPS = 12


class FourierMLP(nn.Module):
    def __init__(self, width=16, freqs=4):
        super().__init__()
        self.register_buffer("freq", torch.arange(1, freqs + 1).float() * math.pi)
        self.inp = nn.Linear(1 + 2 * freqs, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, t, x):
        ang = x * self.freq
        h = torch.cat([t, ang.sin(), ang.cos()], dim=1)
        h = torch.tanh(self.inp(h))
        h = h + torch.tanh(self.hidden(h))
        return self.out(h)


def pde_residual(net, t, x):
    t = t.requires_grad_(True)
    x = x.requires_grad_(True)
    u = net(t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def pde_weight(step):
    # fit the initial condition first, bring the physics in slowly
    return min(1.0, step / RAMP_STEPS)


def train_step(net, opt, batch, step):
    opt.zero_grad()
    (t_c, x_c), (x_0, u_0), t_b = batch
    res = pde_residual(net, t_c, x_c)
    loss_pde = res.pow(2).mean()
    loss_ic = (net(torch.zeros_like(x_0), x_0) - u_0).pow(2).mean()
    edge = torch.ones_like(t_b)
    loss_bc = net(t_b, edge).pow(2).mean() + net(t_b, -edge).pow(2).mean()
    loss = 10.0 * loss_ic + loss_bc + pde_weight(step) * loss_pde
    loss.backward()
    opt.step()
    return loss.detach(), loss_pde.detach(), loss_ic.detach()


def make_batch(gen, device):
    t_c = torch.rand(48, 1, generator=gen)
    x_c = torch.rand(48, 1, generator=gen) * 2 - 1
    x_0 = torch.rand(16, 1, generator=gen) * 2 - 1
    t_b = torch.rand(12, 1, generator=gen)
    u_0 = -torch.sin(math.pi * x_0)
    return (t_c.to(device), x_c.to(device)), (x_0.to(device), u_0.to(device)), t_b.to(device)


def live_tensors(net, opt, logs, batch):
    out = list(logs) + [c.grad for c in batch[0]]      # the collocation points are leaves too
    for p in net.parameters():
        out.append(p.data)
        out.append(p.grad)
        st = opt.state[p]
        out += [st["exp_avg"], st["exp_avg_sq"]]
    return out


def run(steps, dumps, device=None):
    device = device or torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = FourierMLP().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    torch_xla.sync()
    hist = []
    for step in range(1, steps + 1):
        batch = make_batch(gen, device)
        logs = train_step(net, opt, batch, step)
        if step in dumps:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(net, opt, logs, batch))
            with open(dumps[step], "w") as f:
                f.write(text)
        torch_xla.sync()
        hist.append([v.item() for v in logs])
    return hist


if __name__ == "__main__":
    # python step.py 11:a.hlo 12:b.hlo
    dumps = {int(a.split(":")[0]): a.split(":")[1] for a in sys.argv[1:]}
    for row in run(max(dumps, default=6), dumps):
        print(row)
