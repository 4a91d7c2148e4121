"""Masked residue modelling on short protein chains."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD, MASK, CLS = 0, 1, 2
OFFSET = 3
VOCAB = OFFSET + len(AMINO)


class Chains(Dataset):
    def __init__(self, n, low=26, high=46, seed=4):
        rng = random.Random(seed)
        motifs = ["".join(rng.choice(AMINO) for _ in range(5)) for _ in range(6)]
        self.rows = []
        for _ in range(n):
            want, s = rng.randint(low, high), ""
            while len(s) < want:
                s += rng.choice(motifs)
            self.rows.append(s[:want])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.tensor([CLS] + [OFFSET + AMINO.index(a) for a in self.rows[i]])


class MaskCollator:
    def __init__(self, prob=0.15):
        self.prob = prob

    def __call__(self, rows):
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        labels = ids.clone()
        pick = (torch.rand(ids.shape) < self.prob) & (ids >= OFFSET)
        labels[~pick] = -100
        ids = ids.masked_fill(pick, MASK)
        return ids, labels


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def split(self, t):
        b, n, d = t.shape
        return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, bias):
        h = self.n1(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        a = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class ProteinEncoder(nn.Module):
    def __init__(self, d=32, heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, d) * 0.02)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, VOCAB))

    def forward(self, ids, labels):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        bias = (ids == PAD)[:, None, None, :] * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        x = self.norm(x)
        chosen = labels != -100
        logits = self.head(x[chosen])
        return F.cross_entropy(logits, labels[chosen])


def lr_at(step, warmup=4, total=12, peak=3e-3):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / total))


def main():
    torch.manual_seed(4)
    device = torch_xla.device()
    loader = DataLoader(Chains(60), batch_size=5, shuffle=True, drop_last=True, collate_fn=MaskCollator())
    model = ProteinEncoder().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=lr_at(0))
    for step, (ids, labels) in enumerate(loader):
        for group in opt.param_groups:
            group["lr"] = lr_at(step)
        loss = model(ids.to(device), labels.to(device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 3 == 0:
            print(f"{step:3d} | mlm {loss.item():.4f} | ppl {math.exp(loss.item()):.1f}")


if __name__ == "__main__":
    main()
