"""Jet tagging with an attention-pooled deep set over reconstructed particles.

Events are stored as flat arrays with offsets, the way the ntuples come, and are
collated into one long particle table plus the index of the jet each row is in.
"""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

FEATURES = 6
JETS_PER_BATCH = 24


class JetNtuple(Dataset):
    """QCD-like and top-like jets: one or three prongs with soft radiation."""

    def __init__(self, n_jets, seed):
        rng = np.random.default_rng(seed)
        parts, self.labels = [], rng.integers(0, 2, size=n_jets)
        for label in self.labels:
            prongs = 3 if label else 1
            centre = rng.normal(scale=0.35 if label else 0.05, size=(prongs, 2))
            n = int(rng.integers(5, 22))
            which = rng.integers(0, prongs, size=n)
            deta_dphi = centre[which] + rng.normal(scale=0.08, size=(n, 2))
            pt = rng.exponential(size=n) + 0.05
            frac = pt / pt.sum()
            dr = np.hypot(*deta_dphi.T)
            charge = rng.choice([-1.0, 0.0, 1.0], size=n)
            parts.append(np.column_stack([np.log(pt), frac, deta_dphi, dr, charge]))
        self.flat = torch.from_numpy(np.concatenate(parts).astype(np.float32))
        self.offsets = np.concatenate([[0], np.cumsum([len(p) for p in parts])])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rows = self.flat[self.offsets[i]:self.offsets[i + 1]]
        return rows, int(self.labels[i])


def collate_jets(items):
    rows, labels = zip(*items)
    counts = torch.tensor([len(r) for r in rows])
    jet_id = torch.repeat_interleave(torch.arange(len(rows)), counts)
    return torch.cat(rows), jet_id, torch.tensor(labels, dtype=torch.float32)


class AttentionPool(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.score = nn.Linear(dim, heads)
        self.value = nn.Linear(dim, dim)
        self.heads = heads

    def forward(self, h, jet_id, n_jets):
        w = torch.exp(5.0 * torch.tanh(self.score(h)))
        norm = h.new_zeros(n_jets, self.heads).index_add(0, jet_id, w)
        v = self.value(h).view(h.shape[0], self.heads, -1) * w.unsqueeze(-1)
        pooled = v.new_zeros(n_jets, *v.shape[1:]).index_add(0, jet_id, v)
        return (pooled / (norm.unsqueeze(-1) + 1e-6)).flatten(1)


class JetTagger(nn.Module):
    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.embed = nn.Sequential(
            nn.Linear(FEATURES, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU()
        )
        self.context = nn.Linear(2 * dim, dim)
        self.pool = AttentionPool(dim, heads)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, 1))

    def forward(self, particles, jet_id, n_jets):
        h = self.embed(particles)
        summed = h.new_zeros(n_jets, h.shape[1]).index_add(0, jet_id, h)
        h = h + F.gelu(self.context(torch.cat([h, summed[jet_id] / 16.0], dim=-1)))
        return self.out(self.pool(h, jet_id, n_jets)).squeeze(-1)


def cosine(step, total, base):
    return base * 0.5 * (1 + math.cos(math.pi * step / total))


def fit(epochs=3, jets=24 * 12, base_lr=4e-3):
    torch.manual_seed(17)
    device = torch_xla.device()
    loader = DataLoader(
        JetNtuple(jets, seed=17), batch_size=JETS_PER_BATCH, shuffle=True, drop_last=True,
        collate_fn=collate_jets, generator=torch.Generator().manual_seed(17),
    )
    model = JetTagger().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=base_lr, weight_decay=1e-2)
    total_steps = epochs * len(loader)

    step = 0
    for epoch in range(epochs):
        tic = time.time()
        loss_sum = torch.zeros((), device=device)
        correct = torch.zeros((), device=device)
        for particles, jet_id, labels in loader:
            particles, jet_id, labels = particles.to(device), jet_id.to(device), labels.to(device)
            for group in opt.param_groups:
                group["lr"] = cosine(step, total_steps, base_lr)
            logits = model(particles, jet_id, JETS_PER_BATCH)
            loss = F.binary_cross_entropy_with_logits(logits, labels)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            loss_sum += loss.detach()
            correct += ((logits > 0).float() == labels).float().sum()
            xm.mark_step()
            step += 1
        acc = correct.item() / (len(loader) * JETS_PER_BATCH)
        print(f"epoch {epoch}: loss {loss_sum.item() / len(loader):.4f}  acc {acc:.3f}"
              f"  ({time.time() - tic:.1f}s)")


if __name__ == "__main__":
    fit()
