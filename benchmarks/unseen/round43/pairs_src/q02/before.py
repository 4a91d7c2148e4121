"""GIN pre-training on small molecule-like graphs: two augmented views, InfoNCE, SGD."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GRAPHS, NODES, EDGES, ATOMS, DIM, PROJ = 5, 40, 96, 9, 16, 12


class GINLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1 = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(2 * dim)
        self.lin2 = nn.Linear(2 * dim, dim)

    def forward(self, h, src, dst, edge_keep):
        msg = h.index_select(0, src) * edge_keep.unsqueeze(-1)
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        z = (1.0 + self.eps) * h + agg
        return self.lin2(F.relu(self.norm(self.lin1(z))))


def mean_pool(h, graph_id, num_graphs):
    total = h.new_zeros(num_graphs, h.shape[1]).index_add(0, graph_id, h)
    count = h.new_zeros(num_graphs).index_add(0, graph_id, torch.ones_like(h[:, 0]))
    return total / count.clamp(min=1.0).unsqueeze(-1)


class Encoder(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, DIM)
        self.layers = nn.ModuleList(GINLayer(DIM) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, PROJ))

    def forward(self, atoms, src, dst, graph_id, edge_keep):
        h = self.atom(atoms)
        for layer in self.layers:
            h = h + layer(h, src, dst, edge_keep)
        return self.head(mean_pool(h, graph_id, GRAPHS))


def info_nce(z1, z2, tau=0.2):
    z1 = F.normalize(z1, dim=-1)
    z2 = F.normalize(z2, dim=-1)
    logits = z1 @ z2.t() / tau
    target = torch.arange(z1.shape[0], device=z1.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def param_groups(model, weight_decay):
    decay, no_decay = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else no_decay).append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]


def make_batch(gen):
    atoms = torch.randint(0, ATOMS, (NODES,), generator=gen)
    src = torch.randint(0, NODES, (EDGES,), generator=gen)
    dst = torch.randint(0, NODES, (EDGES,), generator=gen)
    graph_id = torch.sort(torch.randint(0, GRAPHS, (NODES,), generator=gen)).values
    keep1 = (torch.rand(EDGES, generator=gen) > 0.2).float()
    keep2 = (torch.rand(EDGES, generator=gen) > 0.2).float()
    return atoms, src, dst, graph_id, keep1, keep2


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(path, steps=3):
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(12)
    dev = torch_xla.device()
    model = Encoder().to(dev)
    opt = torch.optim.SGD(param_groups(model, 5e-4), lr=0.02, momentum=0.9, nesterov=True)
    for i in range(steps):
        atoms, src, dst, gid, k1, k2 = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        z1 = model(atoms, src, dst, gid, k1)
        z2 = model(atoms, src, dst, gid, k2)
        loss = info_nce(z1, z2)
        loss.backward()
        opt.step()
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss.detach()])))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
