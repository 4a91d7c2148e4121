"""Molecule-like graphs: masked-atom pretraining, linear probe, then full fine-tuning with averaged weights."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.optim.swa_utils import AveragedModel

MAX_NODES, N_TYPES, BATCH = 12, 6, 16
STAGES = [
    # name, epochs, lr
    ("pretrain", 2, 5e-3),
    ("probe", 2, 1e-2),
    ("finetune", 12, 3e-3),
]


def make_graphs(n, seed):
    rng = np.random.RandomState(seed)
    atoms = np.zeros((n, MAX_NODES), np.int64)
    adj = np.zeros((n, MAX_NODES, MAX_NODES), np.float32)
    valid = np.zeros((n, MAX_NODES), np.float32)
    target = np.zeros(n, np.float32)
    for i in range(n):
        k = rng.randint(5, MAX_NODES + 1)
        atoms[i, :k] = rng.randint(1, N_TYPES, size=k)
        valid[i, :k] = 1
        for v in range(1, k):
            u = rng.randint(v)
            adj[i, u, v] = adj[i, v, u] = 1
        target[i] = (atoms[i] == 2).sum() - 0.3 * adj[i].sum() / k
    return [torch.from_numpy(a) for a in (atoms, adj, valid, target)]


class GINLayer(nn.Module):

    def __init__(self, d):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, h, adj, valid):
        h = self.mlp((1 + self.eps) * h + adj @ h)
        return F.relu(h) * valid.unsqueeze(-1)


class GraphNet(nn.Module):

    def __init__(self, d=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(N_TYPES + 1, d)
        self.layers = nn.ModuleList(GINLayer(d) for _ in range(layers))
        self.prop_head = nn.Linear(d, 1)

    def encode(self, atoms, adj, valid):
        h = self.emb(atoms) * valid.unsqueeze(-1)
        for layer in self.layers:
            h = layer(h, adj, valid)
        return h

    def forward(self, atoms, adj, valid):
        h = self.encode(atoms, adj, valid)
        pooled = h.sum(1) / valid.sum(1, keepdim=True)
        return self.prop_head(pooled).squeeze(-1)


class AtomPredictor(nn.Module):
    """Pretraining task: recover the type of hidden atoms from their neighbourhood."""

    def __init__(self, net, d=16):
        super().__init__()
        self.net = net
        self.head = nn.Linear(d, N_TYPES)

    def forward(self, atoms, adj, valid, mask):
        hidden = torch.where(mask > 0, torch.full_like(atoms, N_TYPES), atoms)
        logits = self.head(self.net.encode(hidden, adj, valid))
        ce = F.cross_entropy(logits.transpose(1, 2), atoms, reduction="none")
        w = mask * valid
        return (ce * w).sum() / w.sum().clamp(min=1)


def batches(data, rng=None):
    n = len(data[0])
    order = rng.permutation(n) if rng is not None else np.arange(n)
    for s in range(0, n - BATCH + 1, BATCH):
        sel = torch.from_numpy(order[s:s + BATCH])
        yield [d[sel] for d in data]


def evaluate(net, data, device):
    net.eval()
    errs = []
    with torch.no_grad():
        for batch in batches(data):
            atoms, adj, valid, y = (b.to(device) for b in batch)
            errs.append((net(atoms, adj, valid) - y).abs().mean())
            torch_xla.sync()
    net.train()
    return sum(e.item() for e in errs) / len(errs)


def run_stage(name, epochs, lr, net, train, test, device, rng):
    for pname, p in net.named_parameters():
        p.requires_grad_(name != "probe" or pname.startswith("prop_head"))
    task = AtomPredictor(net).to(device) if name == "pretrain" else net
    opt = torch.optim.Adam([p for p in task.parameters() if p.requires_grad], lr=lr)
    averaged = AveragedModel(net) if name == "finetune" else None
    for epoch in range(epochs):
        for batch in batches(train, rng):
            atoms, adj, valid, y = (b.to(device) for b in batch)
            opt.zero_grad()
            if name == "pretrain":
                mask = torch.from_numpy((rng.rand(BATCH, MAX_NODES) < 0.25).astype(np.float32)).to(device)
                loss = task(atoms, adj, valid, mask)
            else:
                loss = F.smooth_l1_loss(net(atoms, adj, valid), y)
            loss.backward()
            opt.step()
            torch_xla.sync()
        if averaged is not None:
            averaged.update_parameters(net)
            torch_xla.sync()
        msg = f"{name:9s} epoch {epoch} loss {loss.item():.4f}"
        if name != "pretrain":
            msg += f" mae {evaluate(averaged.module if averaged else net, test, device):.4f}"
        print(msg)


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = np.random.RandomState(0)
    device = torch_xla.device()
    train, test = make_graphs(96, 1), make_graphs(32, 2)
    net = GraphNet().to(device)
    for stage in STAGES:
        run_stage(*stage, net, train, test, device, rng)
