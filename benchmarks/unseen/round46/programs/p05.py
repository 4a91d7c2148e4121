"""Message passing network for a molecular property, batches in sparse form."""
import random
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Graph = namedtuple("Graph", "z edge_index edge_len y")
Batch = namedtuple("Batch", "z edge_index edge_len graph_id y")

N_ELEMENTS = 6


def make_molecule(rng):
    n = rng.randint(5, 12)
    z = [rng.randrange(N_ELEMENTS) for _ in range(n)]
    src, dst, lengths = [], [], []
    for i in range(1, n):
        links = {rng.randrange(i)}
        if rng.random() < 0.3:
            links.add(rng.randrange(i))
        for j in links:
            d = rng.uniform(1.0, 1.8)
            src += [i, j]
            dst += [j, i]
            lengths += [d, d]
    y = sum(0.3 * v for v in z) - 0.1 * len(src) + 0.05 * sum(lengths)
    return Graph(torch.tensor(z), torch.tensor([src, dst]), torch.tensor(lengths), float(y))


def collate(graphs):
    zs, eis, els, gid, ys, base = [], [], [], [], [], 0
    for g, mol in enumerate(graphs):
        n = mol.z.numel()
        zs.append(mol.z)
        eis.append(mol.edge_index + base)
        els.append(mol.edge_len)
        gid.append(torch.full((n,), g, dtype=torch.long))
        ys.append(mol.y)
        base += n
    return Batch(torch.cat(zs), torch.cat(eis, dim=1), torch.cat(els),
                 torch.cat(gid), torch.tensor(ys))


class RBF(nn.Module):
    def __init__(self, n=8, lo=0.8, hi=2.0):
        super().__init__()
        self.register_buffer("mu", torch.linspace(lo, hi, n))
        self.gamma = (n / (hi - lo)) ** 2

    def forward(self, d):
        return torch.exp(-self.gamma * (d[:, None] - self.mu) ** 2)


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.msg = nn.Linear(dim, dim)
        self.upd = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, edge_index, rbf):
        src, dst = edge_index[0], edge_index[1]
        m = self.msg(h).index_select(0, src) * self.filter(rbf)
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return h + self.upd(agg)


class MolNet(nn.Module):
    def __init__(self, dim=24, depth=2, n_rbf=8):
        super().__init__()
        self.emb = nn.Embedding(N_ELEMENTS, dim)
        self.rbf = RBF(n_rbf)
        self.blocks = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        h = self.emb(batch.z)
        rbf = self.rbf(batch.edge_len)
        for blk in self.blocks:
            h = blk(h, batch.edge_index, rbf)
        atom = self.out(h).squeeze(-1)
        energy = torch.zeros(batch.y.shape[0], device=atom.device)
        return energy.index_add(0, batch.graph_id, atom)


class Progress:
    """Mean absolute error since the start of the run, kept on the device."""

    def __init__(self):
        self.errors = []

    def update(self, pred, target):
        self.errors.append((pred.detach() - target).abs().mean())

    def summary(self):
        errs = torch.stack(self.errors)
        return torch.stack([errs.mean(), errs.min()]).tolist()


def batches(mols, batch_size, rng):
    order = list(range(len(mols)))
    rng.shuffle(order)
    for s in range(0, len(order) - batch_size + 1, batch_size):
        yield collate([mols[i] for i in order[s:s + batch_size]])


def main():
    seed = 17
    torch.manual_seed(seed)
    rng = random.Random(seed)
    mols = [make_molecule(rng) for _ in range(72)]
    mean_y = sum(m.y for m in mols) / len(mols)
    device = torch_xla.device()

    model = MolNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    progress = Progress()
    step = 0
    for epoch in range(2):
        for batch in batches(mols, 8, rng):
            batch = Batch(*(t.to(device) for t in batch))
            target = batch.y - mean_y
            pred = model(batch)
            loss = F.smooth_l1_loss(pred, target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            progress.update(pred, target)
            torch_xla.sync()
            step += 1
            if step % 3 == 0:
                mae, best = progress.summary()
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} "
                      f"mae {mae:.4f} best {best:.4f}")


if __name__ == "__main__":
    main()
