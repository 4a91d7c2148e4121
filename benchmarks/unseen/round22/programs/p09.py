"""Node property regression on small molecule-like graphs.

Stage 1 pretrains the message passing layers by reconstructing hidden atom types, stage 2
fits the readout with the layers frozen, stage 3 fine-tunes everything and keeps a running
average of the weights. Graphs are padded to MAX_NODES / MAX_EDGES when they are built.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MAX_NODES, MAX_EDGES, TYPES = 12, 32, 5


def random_graph(rng):
    n = rng.integers(6, MAX_NODES + 1)
    atoms = rng.integers(1, TYPES, n)
    pairs = [(i, rng.integers(0, i)) for i in range(1, n)]
    src = [a for a, b in pairs] + [b for a, b in pairs]
    dst = [b for a, b in pairs] + [a for a, b in pairs]
    z = np.zeros(MAX_NODES, np.int64)
    z[:n] = atoms
    edges = np.zeros((2, MAX_EDGES), np.int64)
    edges[:, :len(src)] = np.array([src, dst])
    emask = np.zeros(MAX_EDGES, np.float32)
    emask[:len(src)] = 1
    y = np.float32(atoms.mean() + 0.3 * np.bincount(dst).max())
    return z, edges, emask, y


def collate(graphs):
    z, e, m, y = (np.stack(v) for v in zip(*graphs))
    offset = np.arange(len(graphs))[:, None, None] * MAX_NODES
    e = (e + offset).transpose(1, 0, 2).reshape(2, -1)
    return [torch.from_numpy(v) for v in (z.reshape(-1), e, m.reshape(-1), y)]


class Gnn(nn.Module):
    def __init__(self, dim=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(TYPES + 1, dim)
        self.msg = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.upd = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in range(layers))
        self.recon = nn.Linear(dim, TYPES)
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def backbone(self):
        return [p for m in (self.embed, self.msg, self.upd) for p in m.parameters()]

    def encode(self, z, e, mask):
        h = self.embed(z)
        for msg, upd in zip(self.msg, self.upd):
            m = msg(h).index_select(0, e[0]) * mask[:, None]
            agg = torch.zeros_like(h).index_add(0, e[1], m)
            h = h + F.silu(upd(torch.cat([h, agg], 1)))
        return h

    def predict(self, z, e, mask):
        h = self.encode(z, e, mask).view(-1, MAX_NODES, self.embed.embedding_dim)
        real = (z.view(-1, MAX_NODES, 1) > 0).float()
        return self.readout((h * real).sum(1) / real.sum(1)).squeeze(1)


class Loop:
    def __init__(self, n_graphs=160, batch=16, seed=0):
        self.rng = np.random.default_rng(seed)
        self.dev = xm.xla_device()
        self.data = [random_graph(self.rng) for _ in range(n_graphs)]
        self.batch = batch
        self.model = Gnn().to(self.dev)
        self.average = [torch.zeros_like(p) for p in self.model.parameters()]
        self.n_avg = torch.zeros((), device=self.dev)
        torch_xla.sync()

    def batches(self, n):
        for _ in range(n):
            pick = self.rng.choice(len(self.data), self.batch, replace=False)
            yield [t.to(self.dev) for t in collate([self.data[i] for i in pick])]

    def pretrain_loss(self, z, e, mask, y):
        hidden = torch.from_numpy(self.rng.random(z.shape[0]) < 0.25).to(self.dev) & (z > 0)
        logits = self.model.recon(self.model.encode(torch.where(hidden, TYPES, z), e, mask))
        nll = F.cross_entropy(logits, z, reduction="none")
        return (nll * hidden).sum() / hidden.sum().clamp(min=1)

    def regress_loss(self, z, e, mask, y):
        return F.mse_loss(self.model.predict(z, e, mask), y)

    @torch.no_grad()
    def accumulate(self):
        self.n_avg += 1
        for a, p in zip(self.average, self.model.parameters()):
            a += (p - a) / self.n_avg

    def fit(self, name, loss_fn, params, steps, lr, average_every=0):
        for p in self.model.parameters():
            p.requires_grad_(False)
        for p in params:
            p.requires_grad_(True)
        opt = torch.optim.Adam(params, lr=lr)
        for step in range(1, steps + 1):
            with torch_xla.step():
                self.model.zero_grad()
                loss = loss_fn(*next(self.batches(1)))
                loss.backward()
                opt.step()
            if average_every and step % average_every == 0:
                self.accumulate()
                torch_xla.sync()
            if step % 20 == 0:
                print(f"{name} {step}: {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    loop = Loop()
    m = loop.model
    loop.fit("pretrain", loop.pretrain_loss, m.backbone() + list(m.recon.parameters()), 40, 5e-3)
    loop.fit("readout", loop.regress_loss, list(m.readout.parameters()), 40, 1e-2)
    loop.fit("finetune", loop.regress_loss, m.backbone() + list(m.readout.parameters()), 120, 2e-3, average_every=5)
