"""PINN for the viscous Burgers equation with causal time weighting (one optimizer step)."""
import math
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch_xla

OUT = sys.argv[1]
NT, NX, N_IC, N_BC, WIDTH = 4, 5, 8, 6, 8
NU = 0.01 / math.pi
CAUSAL_EPS = 0.5


class ModifiedMLP(nn.Module):
    """Two encoders gate every hidden layer (Wang, Teng & Perdikaris)."""

    def __init__(self):
        super().__init__()
        self.u = nn.Linear(2, WIDTH)
        self.v = nn.Linear(2, WIDTH)
        self.h1 = nn.Linear(2, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, t, x):
        inp = torch.stack([t, x], dim=1)
        u, v = torch.tanh(self.u(inp)), torch.tanh(self.v(inp))
        h = torch.tanh(self.h1(inp))
        h = h * u + (1 - h) * v
        return self.out(h).squeeze(1)


def pde_residual(net, t, x):
    t = t.clone().requires_grad_(True)
    x = x.clone().requires_grad_(True)
    u = net(t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def causal_loss(res, tril):
    per_time = res.view(NT, NX).pow(2).mean(dim=1)
    w = torch.exp(-CAUSAL_EPS * (tril @ per_time))
    return (w * per_time).mean(), w.min()


def losses(net, batch, tril):
    t, x, t_d, x_d, u_d = batch
    pde, wmin = causal_loss(pde_residual(net, t, x), tril)
    data = (net(t_d, x_d) - u_d).pow(2).mean()
    return pde, data, wmin


def sample(g, dev):
    t = torch.sort(torch.rand(NT, generator=g))[0].repeat_interleave(NX)
    x = torch.rand(NT * NX, generator=g) * 2 - 1
    x_ic = torch.rand(N_IC, generator=g) * 2 - 1
    side = torch.randint(0, 2, (N_BC,), generator=g) * 2.0 - 1.0
    t_d = torch.cat([torch.zeros(N_IC), torch.rand(N_BC, generator=g)])
    x_d = torch.cat([x_ic, side])
    u_d = torch.cat([-torch.sin(math.pi * x_ic), torch.zeros(N_BC)])
    return [v.to(dev) for v in (t, x, t_d, x_d, u_d)]


def main():
    torch.manual_seed(17)
    dev = torch_xla.device()
    net = ModifiedMLP().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    tril = torch.tril(torch.ones(NT, NT), diagonal=-1).to(dev)
    g = torch.Generator().manual_seed(6)
    for it in range(3):
        opt.zero_grad(set_to_none=True)
        pde, data, wmin = losses(net, sample(g, dev), tril)
        loss = pde + 20.0 * data
        loss.backward()
        opt.step()
        if it == 2:
            tensors = [loss, pde, data, wmin]
            for p in net.parameters():
                tensors += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(tensors))
        torch_xla.sync()
        print(it, loss.item(), pde.item(), data.item(), wmin.item())


if __name__ == "__main__":
    main()
