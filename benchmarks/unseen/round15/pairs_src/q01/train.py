"""Retention-time regression for tryptic peptides (LC-MS)."""
import argparse
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, Dataset

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"
PAD = 0
HYDRO = {a: (i * 7 % 20) / 10.0 - 1.0 for i, a in enumerate(ALPHABET)}


@dataclass
class Settings:
    peptides: int = 320
    batch: int = 16
    width: int = 32
    heads: int = 4
    lr: float = 2e-3
    epochs: int = 3


class PeptideSet(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = min(38, max(6, int(rng.gauss(14, 4))))
            seq = "".join(rng.choice(ALPHABET) for _ in range(length - 1)) + rng.choice("KR")
            rt = sum(HYDRO[c] for c in seq) / 4 + rng.gauss(0, 0.1)
            self.rows.append((seq, rt))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        seq, rt = self.rows[i]
        return torch.tensor([ALPHABET.index(c) + 1 for c in seq]), torch.tensor(rt)


def collate(items):
    seqs, rts = zip(*items)
    width = -(-max(len(s) for s in seqs) // 8) * 8
    tokens = torch.full((len(seqs), width), PAD, dtype=torch.long)
    for row, s in zip(tokens, seqs):
        row[: len(s)] = s
    return tokens, torch.stack(rts)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5
        s = s.masked_fill(~keep[:, None, None, :], -1e4)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.ff(self.n2(x))


class RTModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.emb = nn.Embedding(len(ALPHABET) + 1, s.width, padding_idx=PAD)
        self.blocks = nn.ModuleList(Block(s.width, s.heads) for _ in range(2))
        self.head = nn.Linear(s.width, 1)

    def forward(self, tokens):
        keep = tokens != PAD
        x = self.emb(tokens)
        for b in self.blocks:
            x = b(x, keep)
        w = keep.unsqueeze(-1).to(x.dtype)
        return self.head((x * w).sum(1) / w.sum(1)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=11)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    s = Settings()
    dev = torch_xla.device()
    model = RTModel(s).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=s.lr, weight_decay=0.01)
    loader = DataLoader(PeptideSet(s.peptides, args.seed), batch_size=s.batch, shuffle=True,
                        drop_last=True, collate_fn=collate)
    step = 0
    for epoch in range(s.epochs):
        for tokens, rt in loader:
            tokens, rt = tokens.to(dev), rt.to(dev)
            opt.zero_grad(set_to_none=True)
            loss = F.smooth_l1_loss(model(tokens), rt, beta=0.3)
            loss.backward()
            opt.step()
            xm.mark_step()
            step += 1
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} huber {loss.item():.4f} "
                      f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
