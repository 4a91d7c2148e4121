"""Masked-nucleotide pretraining on synthetic promoter sequences."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

A, C, G, T, MASK = range(5)
SEQ_LEN = 64
BATCH = 16
TOTAL_STEPS = 18
WARM_SPAN = 16
MIN_SPAN, MAX_SPAN = 4, 48
MOTIFS = ([T, A, T, A, A, A], [C, A, A, T], [G, G, G, C, G, G])


def make_batch(rng):
    seq = rng.integers(0, 4, size=(BATCH, SEQ_LEN))
    for row in seq:
        for motif in MOTIFS:
            at = rng.integers(0, SEQ_LEN - len(motif))
            row[at : at + len(motif)] = motif
    labels = seq.copy()
    chosen = rng.random(seq.shape) < 0.15
    labels[~chosen] = -100
    roll = rng.random(seq.shape)
    inputs = np.where(chosen & (roll < 0.8), MASK, seq)
    swap = chosen & (roll >= 0.9)
    inputs = np.where(swap, rng.integers(0, 4, size=seq.shape), inputs)
    return torch.from_numpy(inputs), torch.from_numpy(labels)


class LocalAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, band):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(b, n, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        score = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        score = score + (1.0 - band) * -1e4
        return self.out((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = LocalAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, band):
        x = x + self.att(self.n1(x), band)
        return x + self.ff(self.n2(x))


class GenomeEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, depth=1):
        super().__init__()
        self.embed = nn.Embedding(5, dim)
        self.pos = nn.Parameter(torch.zeros(SEQ_LEN, dim))
        self.conv = nn.Conv1d(dim, dim, 5, padding=2, groups=dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, 4)

    def forward(self, ids, span, labels=None):
        n = ids.shape[1]
        band = torch.ones(n, n, device=ids.device).tril(span).triu(-span)
        x = self.embed(ids) + self.pos
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, band)
        x = self.norm(x)
        if labels is None:
            return self.lm_head(x)
        picked = labels != -100
        logits = self.lm_head(x[picked])
        target = labels[picked]
        return F.cross_entropy(logits, target), (logits.argmax(-1) == target).float().mean()


def attention_span(step):
    frac = min(step / WARM_SPAN, 1.0)
    return int(round(MIN_SPAN + frac * (MAX_SPAN - MIN_SPAN)))


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    model = GenomeEncoder().to(device)

    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=0.05,
        momentum=0.9,
    )

    for step in range(TOTAL_STEPS):
        ids, labels = make_batch(rng)
        span = attention_span(step)
        loss, acc = model(ids.to(device), span, labels.to(device))
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if step % 6 == 5:
            print(f"step {step} span {span} loss {loss.item():.4f} masked acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
