"""State estimation on a distribution grid: graph attention over buses."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BUSES, FEAT, EDGE, DIM, HEADS = 9, 4, 3, 12, 3


class BusAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        dh = dim // heads
        self.heads = heads
        self.w = nn.Parameter(torch.randn(heads, dim, dh) / dim ** 0.5)
        self.a_from = nn.Parameter(0.3 * torch.randn(heads, dh))
        self.a_to = nn.Parameter(0.3 * torch.randn(heads, dh))
        self.edge = nn.Linear(EDGE, heads)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def attend(self, x, e, linked):
        bias = self.edge(e)
        outs = []
        for h in range(self.heads):
            z = x @ self.w[h]
            s = (z * self.a_from[h]).sum(-1)
            t = (z * self.a_to[h]).sum(-1)
            logit = F.leaky_relu(s.unsqueeze(2) + t.unsqueeze(1) + bias[..., h], 0.2)
            logit = logit.masked_fill(~linked, -1e9)
            outs.append(torch.softmax(logit, dim=-1) @ z)
        return torch.cat(outs, dim=-1)

    def forward(self, x, e, linked):
        return self.norm(x + self.out(F.elu(self.attend(x, e, linked))))


class GridEstimator(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.inp = nn.Linear(FEAT, DIM)
        self.layers = nn.ModuleList(BusAttention(DIM, HEADS) for _ in range(layers))
        self.vm = nn.Linear(DIM, 1)
        self.va = nn.Linear(DIM, 1)

    def forward(self, x, e, linked):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(h, e, linked)
        return 1.0 + 0.1 * torch.tanh(self.vm(h)).squeeze(-1), self.va(h).squeeze(-1)


def criterion(vm, va, target, seen):
    """Weighted squared error on the metered buses only."""
    err = (vm - target[..., 0]) ** 2 * 10.0 + (va - target[..., 1]) ** 2
    return (err * seen).sum() / seen.sum()


def sample(gen, n=5):
    x = torch.randn(n, BUSES, FEAT, generator=gen)
    e = torch.randn(n, BUSES, BUSES, EDGE, generator=gen)
    linked = torch.rand(n, BUSES, BUSES, generator=gen) < 0.4
    linked = linked | linked.transpose(1, 2) | torch.eye(BUSES, dtype=torch.bool)
    target = torch.stack([1.0 + 0.02 * x[..., 0], 0.1 * x[..., 1]], dim=-1)
    seen = (torch.rand(n, BUSES, generator=gen) < 0.7).float()
    return x, e, linked, target, seen


def live(model, opt):
    out = []
    for p in model.parameters():
        out += [p, opt.state[p]["sum"]]
    return out


def main(steps=4):
    torch.manual_seed(1)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(2)
    model = GridEstimator().to(dev)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    torch_xla.sync()
    for it in range(steps):
        x, e, linked, target, seen = (t.to(dev) for t in sample(gen))
        loss = criterion(*model(x, e, linked), target, seen)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if it == 2 and len(sys.argv) > 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [loss])
            with open(sys.argv[1], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(it, loss.item())
    return model


if __name__ == "__main__":
    main()
