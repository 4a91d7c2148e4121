"""SASRec: self-attentive sequential recommendation with sampled negatives."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Sessions(Dataset):
    def __init__(self, n_users, n_items, max_len, seed):
        self.n_items = n_items
        self.rng = np.random.default_rng(seed)
        lengths = self.rng.integers(6, max_len + 2, n_users)
        self.sessions = [self.rng.integers(1, n_items + 1, n) for n in lengths]

    def __len__(self):
        return len(self.sessions)

    def __getitem__(self, i):
        s = self.sessions[i]
        neg = self.rng.integers(1, self.n_items + 1, len(s) - 1)
        return s[:-1], s[1:], neg


def left_pad(seqs, width):
    out = torch.full((len(seqs), width), PAD, dtype=torch.long)
    for row, s in zip(out, seqs):
        row[width - len(s):] = torch.as_tensor(s)
    return out


def collate(rows):
    seq, pos, neg = zip(*rows)
    width = max(len(s) for s in seq)
    return left_pad(seq, width), left_pad(pos, width), left_pad(neg, width)


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        att = att.masked_fill(mask, -1e4).softmax(dim=-1)
        h = (self.drop(att) @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.drop(self.proj(h))
        h = self.fc2(self.drop(F.relu(self.fc1(self.norm2(x)))))
        return x + self.drop(h)


class SASRec(nn.Module):
    def __init__(self, n_items, max_len, dim, heads, layers, dropout):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=PAD)
        self.position = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(dim, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        causal = torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), diagonal=1)
        self.register_buffer("causal", causal, persistent=False)
        self.register_buffer("position_ids", torch.arange(max_len).flip(0), persistent=False)

    def forward(self, seq):
        n = seq.shape[1]
        x = self.item(seq) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.position(self.position_ids[-n:]))
        mask = self.causal[:n, :n][None, None] | (seq == PAD)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)

    def loss(self, seq, pos, neg):
        h = self(seq)
        pos_logit = (h * self.item(pos)).sum(-1)
        neg_logit = (h * self.item(neg)).sum(-1)
        valid = (pos != PAD).float()
        nll = F.softplus(-pos_logit) + F.softplus(neg_logit)
        return (nll * valid).sum() / valid.sum()


def train_one_epoch(model, loader, optimizer, device, epoch):
    for i, (seq, pos, neg) in enumerate(loader):
        optimizer.zero_grad()
        loss = model.loss(seq.to(device), pos.to(device), neg.to(device))
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        torch_xla.sync()
        print(f"epoch {epoch} batch {i} len {seq.shape[1]} loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits, total = 0.0, 0
    for seq, pos, _ in loader:
        scores = model(seq.to(device))[:, -1] @ model.item.weight.t()
        rank = (scores > scores.gather(1, pos[:, -1:].to(device))).sum(dim=1)
        hits += (rank < 10).sum().item()
        total += seq.shape[0]
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=200)
    ap.add_argument("--max-len", type=int, default=24)
    ap.add_argument("--dim", type=int, default=16)
    ap.add_argument("--layers", type=int, default=1)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    device = torch_xla.device()
    train = Sessions(20, args.items, args.max_len, seed=1)
    valid = Sessions(8, args.items, args.max_len, seed=2)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    valid_loader = DataLoader(valid, args.batch_size, collate_fn=collate)

    model = SASRec(args.items, args.max_len, args.dim, heads=2, layers=args.layers, dropout=0.2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    torch_xla.sync()

    model.train()
    for epoch in range(args.epochs):
        train_one_epoch(model, train_loader, optimizer, device, epoch)
        print(f"epoch {epoch} hit@10 {evaluate(model, valid_loader, device):.3f}", flush=True)


if __name__ == "__main__":
    main()
