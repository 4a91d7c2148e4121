"""Tiny SchNet: energies and forces of small clusters, trained on both."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla


class Filter(nn.Module):
    def __init__(self, n_rbf, width, cutoff):
        super().__init__()
        self.lin1 = nn.Linear(n_rbf, width)
        self.lin2 = nn.Linear(width, width)
        self.cutoff = cutoff
        self.register_buffer("mu", torch.linspace(0.0, cutoff, n_rbf))
        self.gamma = 0.5 * (n_rbf / cutoff) ** 2

    def forward(self, d):
        rbf = torch.exp(-self.gamma * (d[:, None] - self.mu) ** 2)
        fc = 0.5 * (torch.cos(d * (math.pi / self.cutoff)) + 1.0)
        w = self.lin2(torch.tanh(self.lin1(rbf)))
        return w * fc[:, None]


class Interaction(nn.Module):
    def __init__(self, n_rbf, width, cutoff):
        super().__init__()
        self.filter = Filter(n_rbf, width, cutoff)
        self.inp = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, h, d, src, dst):
        m = self.inp(h)[src] * self.filter(d)
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return h + torch.tanh(self.out(agg))


class SchNet(nn.Module):
    def __init__(self, n_types=4, width=12, n_rbf=9, blocks=2, cutoff=5.0):
        super().__init__()
        self.emb = nn.Embedding(n_types, width)
        self.blocks = nn.ModuleList(
            [Interaction(n_rbf, width, cutoff) for _ in range(blocks)])
        self.read = nn.Linear(width, 1)

    def forward(self, z, pos, src, dst, mol, n_mol):
        vec = pos[src] - pos[dst]
        d = torch.sqrt((vec * vec).sum(-1) + 1e-8)
        h = self.emb(z)
        for block in self.blocks:
            h = block(h, d, src, dst)
        e_atom = self.read(h).squeeze(-1)
        return torch.zeros(n_mol, device=pos.device).index_add(0, mol, e_atom)


def batch(seed, n_mol=3, n_atom=4):
    g = torch.Generator().manual_seed(seed)
    n = n_mol * n_atom
    z = torch.randint(0, 4, (n,), generator=g)
    pos = torch.randn(n, 3, generator=g)
    pairs = [(m * n_atom + i, m * n_atom + j) for m in range(n_mol)
             for i in range(n_atom) for j in range(n_atom) if i != j]
    src, dst = torch.tensor(pairs).t().contiguous()
    mol = torch.arange(n_mol).repeat_interleave(n_atom)
    energy = torch.randn(n_mol, generator=g)
    force = torch.randn(n, 3, generator=g)
    return z, pos, src, dst, mol, energy, force


def train_step(model, opt, data, n_mol=3, w_force=10.0):
    z, pos, src, dst, mol, energy, force = data
    pos = pos.detach().requires_grad_(True)
    pred = model(z, pos, src, dst, mol, n_mol)
    grad, = torch.autograd.grad(pred.sum(), pos, retain_graph=True)
    loss_e = torch.mean((pred - energy) ** 2)
    loss_f = torch.mean((-grad - force) ** 2)
    loss = loss_e + w_force * loss_f
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach(), loss_f.detach()


def pending(model, opt, extra):
    out = list(model.parameters())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k])
                and st[k].device.type == "xla"]
    return out + list(extra)


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = SchNet().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for step in range(3):
        data = [t.to(dev) for t in batch(step)]
        torch_xla.sync()
        losses = train_step(model, opt, data)
        if step == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(model, opt, losses))
            open(sys.argv[1], "w").write(text)
        torch_xla.sync()
        print(step, [round(x.item(), 6) for x in losses])


if __name__ == "__main__":
    main()
