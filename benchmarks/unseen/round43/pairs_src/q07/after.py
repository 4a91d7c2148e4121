"""Physics-informed network for the viscous Burgers equation, hard-coded nu, Adam."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch_xla

COLLOC, BOUND, HID = 10, 6, 8
NU = 0.01 / 3.141592653589793


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(2, HID)
        self.hid = nn.Linear(HID, HID)
        self.out = nn.Linear(HID, 1, bias=False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, t):
        h = torch.tanh(self.inp(torch.cat([x, t], dim=1)))
        h = torch.tanh(self.scale * self.hid(h))
        return self.out(h)


def residual(net, x, t):
    u = net(x, t)
    ones = torch.ones_like(u)
    u_x, u_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
    u_xx = torch.autograd.grad(u_x, x, ones, retain_graph=True)[0]
    return u_t + u * u_x - NU * u_xx


def loss_fn(net, x_f, t_f, x_b, t_b, u_b):
    f = residual(net, x_f, t_f)
    data = (net(x_b, t_b) - u_b).pow(2).mean()
    return data + f.pow(2).mean(), data


def make_batch(gen):
    x_f = torch.rand(COLLOC, 1, generator=gen) * 2.0 - 1.0
    t_f = torch.rand(COLLOC, 1, generator=gen)
    x_b = torch.rand(BOUND, 1, generator=gen) * 2.0 - 1.0
    t_b = torch.zeros(BOUND, 1)
    u_b = -torch.sin(3.141592653589793 * x_b)
    return x_f, t_f, x_b, t_b, u_b


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(path, steps=3):
    torch.manual_seed(61)
    gen = torch.Generator().manual_seed(62)
    dev = torch_xla.device()
    net = Net().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for i in range(steps):
        x_f, t_f, x_b, t_b, u_b = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        x_f.requires_grad_(True)
        t_f.requires_grad_(True)
        opt.zero_grad(set_to_none=True)
        loss, data = loss_fn(net, x_f, t_f, x_b, t_b, u_b)
        loss.backward(inputs=list(net.parameters()))
        opt.step()
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(
                    live_tensors(net, opt, [loss.detach(), data.detach()])))
        torch_xla.sync()
        print(i, loss.item(), data.item())


if __name__ == "__main__":
    main(sys.argv[1])
