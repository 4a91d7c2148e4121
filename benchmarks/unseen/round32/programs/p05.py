"""Message passing network for molecule-like graphs; batches are padded to a few fixed sizes."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ATOM_TYPES = 6
GRAPHS_PER_BATCH = 4
# (nodes, directed edges) that a batch may be padded to
PAD_SIZES = [(40, 96), (64, 160), (96, 240)]


def make_molecule(rng, lo, hi):
    """A random tree with a few ring closures and a target that depends on both."""
    n = rng.randint(lo, hi)
    types = [rng.randrange(ATOM_TYPES) for _ in range(n)]
    edges = [(i, rng.randrange(max(0, i - 3), i)) for i in range(1, n)]
    rings = rng.randint(0, 2)
    for _ in range(rings):
        a = rng.randrange(n - 2)
        edges.append((a, a + 2))
    target = 0.3 * sum(t == 2 for t in types) - 0.5 * rings + 0.05 * n
    return types, edges, target


def collate(molecules):
    nodes, src, dst, owner, targets = [], [], [], [], []
    for g, (types, edges, target) in enumerate(molecules):
        base = len(nodes)
        nodes += types
        owner += [g] * len(types)
        for a, b in edges:
            src += [base + a, base + b]
            dst += [base + b, base + a]
        targets.append(target)
    n_pad, e_pad = next((n, e) for n, e in PAD_SIZES if len(nodes) <= n - 1 and len(src) <= e)
    spare = n_pad - 1
    src += [spare] * (e_pad - len(src))
    dst += [spare] * (e_pad - len(dst))
    owner += [GRAPHS_PER_BATCH] * (n_pad - len(nodes))
    nodes += [ATOM_TYPES] * (n_pad - len(nodes))
    return (torch.tensor(nodes), torch.tensor(src), torch.tensor(dst), torch.tensor(owner), torch.tensor(targets))


class BucketSampler:
    """Groups molecules of similar size so that little padding is wasted."""

    def __init__(self, molecules, seed):
        self.rng = random.Random(seed)
        self.by_size = sorted(molecules, key=lambda m: len(m[0]))

    def __iter__(self):
        groups = [self.by_size[i:i + GRAPHS_PER_BATCH] for i in range(0, len(self.by_size), GRAPHS_PER_BATCH)]
        groups = [g for g in groups if len(g) == GRAPHS_PER_BATCH]
        self.rng.shuffle(groups)
        for g in groups:
            yield collate(g)


class GatedConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Linear(dim, dim)
        self.gate = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, src, dst):
        m = self.msg(h).index_select(0, src)
        agg = torch.zeros_like(h).index_add(0, dst, m)
        z = torch.sigmoid(self.gate(torch.cat([h, agg], dim=1)))
        return self.norm(h + z * torch.tanh(agg))


class MoleculeNet(nn.Module):
    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.emb = nn.Embedding(ATOM_TYPES + 1, dim, padding_idx=ATOM_TYPES)
        self.convs = nn.ModuleList([GatedConv(dim) for _ in range(depth)])
        self.read = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, nodes, src, dst, owner):
        h = self.emb(nodes)
        for conv in self.convs:
            h = conv(h, src, dst)
        per_atom = self.read(h).squeeze(1)
        pooled = torch.zeros(GRAPHS_PER_BATCH + 1, device=h.device).index_add(0, owner, per_atom)
        return pooled[:GRAPHS_PER_BATCH]


def run_validation(model, batches, device):
    model.eval()
    errors = []
    with torch.no_grad():
        for b in batches:
            nodes, src, dst, owner, target = (t.to(device) for t in b)
            errors.append((model(nodes, src, dst, owner) - target).abs().mean())
            torch_xla.sync()
    model.train()
    return torch.stack(errors).mean().item()


def main():
    torch.manual_seed(0)
    rng = random.Random(13)
    device = torch_xla.device()
    train = [make_molecule(rng, 5, 22) for _ in range(60)]
    val = [make_molecule(rng, 5, 22) for _ in range(24)]
    sampler = BucketSampler(train, seed=1)
    val_batches = list(BucketSampler(val, seed=2))

    model = MoleculeNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    torch_xla.sync()

    for epoch in range(4):
        losses = []
        for b in sampler:
            nodes, src, dst, owner, target = (t.to(device) for t in b)
            loss = F.mse_loss(model(nodes, src, dst, owner), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            xm.optimizer_step(opt)
            losses.append(loss.detach())
            torch_xla.sync()
        mse = torch.stack(losses).mean().item()
        mae = run_validation(model, val_batches, device)
        print(f"epoch {epoch} train mse {mse:.4f} val mae {mae:.4f}")


if __name__ == "__main__":
    main()
