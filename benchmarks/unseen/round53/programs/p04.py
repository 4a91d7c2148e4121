"""Tagging of clinical notes: each note is cut into fixed windows, one optimizer update per note."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD = 0
WINDOW, STRIDE = 48, 40
VOCAB, TAGS = 200, 7
IGNORE = -100


class NoteCorpus:
    """Synthetic notes; tag of a token depends on its id and on its left neighbour."""

    def __init__(self, n_notes, seed):
        rng = random.Random(seed)
        self.notes = []
        for _ in range(n_notes):
            length = int(min(500, max(30, rng.lognormvariate(5.2, 0.7))))
            toks = [rng.randrange(1, VOCAB) for _ in range(length)]
            tags = [(t + (toks[i - 1] if i else 0)) % 3 if t % 5 else 3 + t % 4 for i, t in enumerate(toks)]
            self.notes.append((toks, tags))

    def __len__(self):
        return len(self.notes)

    def windows(self, i):
        toks, tags = self.notes[i]
        out = []
        for start in range(0, max(1, len(toks) - (WINDOW - STRIDE)), STRIDE):
            t, g = toks[start:start + WINDOW], tags[start:start + WINDOW]
            fill = WINDOW - len(t)
            if start:
                g = [IGNORE] * (WINDOW - STRIDE) + g[WINDOW - STRIDE:]
            out.append((torch.tensor(t + [PAD] * fill), torch.tensor(g + [IGNORE] * fill)))
        return out


class GatedConvBlock(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        value, gate = self.conv(self.norm(x).transpose(1, 2)).chunk(2, dim=1)
        return x + (value * torch.sigmoid(gate)).transpose(1, 2)


class Tagger(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.blocks = nn.Sequential(*[GatedConvBlock(dim, d) for d in (1, 3)])
        self.out = nn.Linear(dim, TAGS)

    def forward(self, ids):
        return self.out(self.blocks(self.emb(ids)))


class WarmupInvSqrt:
    def __init__(self, opt, base, warmup):
        self.opt, self.base, self.warmup, self.n = opt, base, warmup, 0

    def step(self):
        self.n += 1
        lr = self.base * min(self.n / self.warmup, (self.warmup / self.n) ** 0.5)
        for g in self.opt.param_groups:
            g["lr"] = lr


def train_note(model, opt, sched, windows, device):
    n_labels = sum(int((g != IGNORE).sum()) for _, g in windows)
    total = torch.zeros((), device=device)
    opt.zero_grad()
    for ids, tags in windows:
        ids, tags = ids.unsqueeze(0).to(device), tags.unsqueeze(0).to(device)
        logits = model(ids)
        loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=IGNORE, reduction="sum")
        loss = loss / torch.tensor(float(n_labels), device=device)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    sched.step()
    opt.step()
    return total


def main():
    torch.manual_seed(5)
    random.seed(5)
    device = torch_xla.device()
    corpus = NoteCorpus(20, seed=5)
    model = Tagger().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    sched = WarmupInvSqrt(opt, base=5e-3, warmup=8)
    order = list(range(len(corpus)))
    random.shuffle(order)

    history = []
    model.train()
    for step, i in enumerate(order):
        windows = corpus.windows(i)
        loss = train_note(model, opt, sched, windows, device)
        xm.mark_step()
        history.append(loss.item())
        if (step + 1) % 5 == 0:
            recent = sum(history[-5:]) / 5
            print(f"note {step + 1:3d}  windows {len(windows):2d}  loss {recent:.4f}")


if __name__ == "__main__":
    main()
