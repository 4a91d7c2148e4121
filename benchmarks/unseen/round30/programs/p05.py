#!/usr/bin/env python
"""Session-based next-item recommendation, GRU4Rec style, on synthetic click logs."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1)

N_ITEMS = 120
MAX_LEN = 20
PAD = 0


class ClickSessions(Dataset):

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.rows = []
        for _ in range(n):
            length = 2 + int(rng.gamma(2.0, 2.0))
            length = min(length, MAX_LEN)
            start = rng.randint(1, N_ITEMS - 30)
            walk = start + np.cumsum(rng.randint(0, 3, size=length + 1))
            walk = np.clip(walk, 1, N_ITEMS - 1)
            self.rows.append((walk[:-1], walk[-1]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        hist, nxt = self.rows[i]
        padded = np.full(MAX_LEN, PAD, dtype=np.int64)
        padded[:len(hist)] = hist
        return padded, len(hist), int(nxt)


class SessionRec(nn.Module):

    def __init__(self, n_items, dim=16):
        super().__init__()
        self.items = nn.Embedding(n_items, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, dim)
        self.q = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, hist):
        h = self.items(hist) + self.pos.weight[:hist.shape[1]]
        score = self.q(torch.tanh(h)).sum(-1).masked_fill(hist == PAD, -1e4)
        ctx = (score.softmax(-1).unsqueeze(-1) * h).sum(1)
        return F.normalize(self.out(ctx), dim=-1)

    def score(self, user, items):
        return (user.unsqueeze(1) * self.items(items)).sum(-1)


class Trainer:

    def __init__(self, model, device, n_neg=12, report_every=4):
        self.model = model
        self.device = device
        self.n_neg = n_neg
        self.report_every = report_every
        self.opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
        self.margins = []
        self.step = 0

    def prepare(self, batch):
        hist, lengths, target = batch
        longest = int(lengths.max())
        hist = hist[:, :longest]
        neg = torch.randint(1, N_ITEMS, (hist.shape[0], self.n_neg))
        return hist.to(self.device), target.to(self.device), neg.to(self.device)

    def train_step(self, batch):
        hist, target, neg = self.prepare(batch)
        self.opt.zero_grad()
        user = self.model(hist)
        pos_s = self.model.score(user, target.unsqueeze(1))
        neg_s = self.model.score(user, neg)
        loss = F.softplus(neg_s - pos_s).mean()
        loss.backward()
        self.opt.step()
        self.margins.append((pos_s - neg_s).detach().flatten())
        torch_xla.sync()
        self.step += 1
        if self.step % self.report_every == 0:
            self.report(loss)

    def report(self, loss):
        allm = torch.cat(self.margins)
        auc = (allm > 0).float().mean() + 0.5 * (allm == 0).float().mean()
        print("step %3d  loss %.4f  auc so far %.4f" % (self.step, loss.item(), auc.item()))


def main():
    device = torch_xla.device()
    data = DataLoader(ClickSessions(512, seed=4), batch_size=32, shuffle=True, drop_last=True)
    trainer = Trainer(SessionRec(N_ITEMS).to(device), device)
    for epoch in range(3):
        for batch in data:
            trainer.train_step(batch)
        print("epoch", epoch, "done")


if __name__ == "__main__":
    main()
