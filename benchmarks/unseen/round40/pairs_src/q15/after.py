"""Physics-informed net for Burgers' equation, causal weights over time slabs."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch_xla

SLABS, PER_SLAB, N_IC, WIDTH, NU, EPS = 5, 8, 12, 16, 0.01, 1.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, WIDTH)
        self.l2 = nn.Linear(WIDTH, WIDTH)
        self.l3 = nn.Linear(WIDTH, 1)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, t, x):
        h = torch.cat([t, x], dim=1)
        h = torch.tanh(self.scale[0] * self.l1(h))
        h = torch.tanh(self.scale[1] * self.l2(h))
        return self.l3(h)


def residual(net, t, x):
    u = net(t, x)
    one = torch.ones_like(u)
    u_t, u_x = torch.autograd.grad(u, (t, x), one, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, one, create_graph=True)
    return u_t + u * u_x - NU * u_xx


def causal_loss(res):
    """Later slabs count once the earlier ones are solved (weights are constants)."""
    per_slab = res.view(SLABS, PER_SLAB).square().mean(dim=1)
    earlier = torch.cumsum(per_slab, dim=0) - per_slab
    w = torch.exp(-EPS * earlier)
    return (w * per_slab).mean(), w


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    t = (torch.arange(SLABS).repeat_interleave(PER_SLAB) + torch.rand(SLABS * PER_SLAB, generator=g)) / SLABS
    x = torch.rand(SLABS * PER_SLAB, generator=g) * 2 - 1
    x0 = torch.rand(N_IC, generator=g) * 2 - 1
    return t.unsqueeze(1), x.unsqueeze(1), x0.unsqueeze(1), -torch.sin(3.14159265 * x0).unsqueeze(1)


def live(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out.append(p.data)
        if p.grad is not None:
            out.append(p.grad)
        for v in opt.state.get(p, {}).values():
            if torch.is_tensor(v) and v.device.type == "xla":
                out.append(v)
    return out


def main(path):
    torch.manual_seed(5)
    dev = torch_xla.device()
    net = Net().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for it in range(4):
        t, x, x0, u0 = [v.to(dev) for v in batch(it)]
        t.requires_grad_(True)
        x.requires_grad_(True)
        torch_xla.sync()
        opt.zero_grad()
        pde, w = causal_loss(residual(net, t, x))
        ic = (net(torch.zeros_like(x0), x0) - u0).square().mean()
        loss = pde + 10.0 * ic
        loss.backward()
        opt.step()
        if it == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, opt, loss, pde, ic, w)))
        torch_xla.sync()
        print(it, loss.item(), w[-1].item())


if __name__ == "__main__":
    main(sys.argv[1])
