import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Phenotyping from visit histories: codes per visit, time gaps, multi-label diagnoses
# with online hard example mining over (patient, label) pairs.
N_CODES, CODES_PER_VISIT = 300, 5
N_LABELS = 10
MAX_VISITS = 64
BATCH = 24
DIM = 20
STEPS = 36
KEEP_START, KEEP_END = 1.0, 0.3


class Cohort:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(N_CODES, 0.03), size=N_LABELS)
        self.patients = []
        for _ in range(n):
            labels = rng.random(N_LABELS) < 0.15
            base = topics[labels].mean(0) if labels.any() else np.full(N_CODES, 1.0 / N_CODES)
            mix = 0.7 * base + 0.3 / N_CODES
            visits = int(np.clip(rng.lognormal(2.4, 0.6), 2, MAX_VISITS))
            codes = rng.choice(N_CODES, size=(visits, CODES_PER_VISIT), p=mix / mix.sum()) + 1
            drop = rng.random(codes.shape) < 0.25
            codes[drop] = 0
            gaps = rng.exponential(60.0, size=visits)
            self.patients.append((codes, gaps.astype(np.float32), labels.astype(np.float32)))

    def __len__(self):
        return len(self.patients)

    def __getitem__(self, i):
        return self.patients[i]


def collate(batch):
    longest = max(len(codes) for codes, _, _ in batch)
    codes = torch.zeros(len(batch), longest, CODES_PER_VISIT, dtype=torch.long)
    gaps = torch.zeros(len(batch), longest)
    mask = torch.zeros(len(batch), longest)
    labels = torch.zeros(len(batch), N_LABELS)
    for r, (c, g, y) in enumerate(batch):
        # most recent visit last
        codes[r, -len(c):] = torch.from_numpy(c)
        gaps[r, -len(c):] = torch.from_numpy(g)
        mask[r, -len(c):] = 1.0
        labels[r] = torch.from_numpy(y)
    return codes, gaps, mask, labels


class VisitEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(N_CODES + 1, DIM, padding_idx=0)
        self.time = nn.Linear(2, DIM)

    def forward(self, codes, gaps):
        v = self.codes(codes).sum(2)
        since = torch.flip(torch.cumsum(torch.flip(gaps, [1]), 1), [1])
        t = torch.stack([torch.log1p(gaps), torch.log1p(since)], dim=-1)
        return torch.tanh(v + self.time(t * 0.2))


class Phenotyper(nn.Module):
    """One attention query per diagnosis over the visits."""

    def __init__(self):
        super().__init__()
        self.visits = VisitEncoder()
        self.key = nn.Linear(DIM, DIM)
        self.query = nn.Parameter(torch.randn(N_LABELS, DIM) * 0.1)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Parameter(torch.randn(N_LABELS, DIM) * 0.1)
        self.bias = nn.Parameter(torch.full((N_LABELS,), -1.7))

    def forward(self, codes, gaps, mask):
        h = self.drop(self.visits(codes, gaps))
        score = torch.einsum("bvd,ld->blv", self.key(h), self.query) / DIM ** 0.5
        score = score.masked_fill(mask[:, None] == 0, -1e4)
        ctx = torch.einsum("blv,bvd->bld", score.softmax(-1), h)
        return (ctx * self.out).sum(-1) + self.bias


def keep_fraction(step):
    t = min(1.0, step / (STEPS - 1))
    return KEEP_START + (KEEP_END - KEEP_START) * t


def ohem_bce(logits, labels, keep):
    loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none").flatten()
    k = max(BATCH, int(keep * loss.numel()))
    hard, _ = torch.topk(loss, k)
    return hard.mean()


class MeanMeter:
    def __init__(self, device):
        self.total = torch.zeros((), device=device)
        self.n = 0

    def add(self, value):
        self.total += value.detach()
        self.n += 1

    def pop(self):
        mean = self.total.item() / max(1, self.n)
        self.total.zero_()
        self.n = 0
        return mean


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(Cohort(480, seed=40), batch_size=BATCH, shuffle=True, drop_last=True,
                                         collate_fn=collate, generator=torch.Generator().manual_seed(41))
    model = Phenotyper().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-3)
    meter = MeanMeter(device)
    xm.mark_step()

    step = 0
    while step < STEPS:
        for batch in loader:
            codes, gaps, mask, labels = (t.to(device) for t in batch)
            logits = model(codes, gaps, mask)
            loss = ohem_bce(logits, labels, keep_fraction(step))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            meter.add(loss)
            xm.mark_step()
            step += 1
            if step % 9 == 0:
                print(f"step {step} keep {keep_fraction(step):.2f} loss {meter.pop():.4f}")
            if step == STEPS:
                break


if __name__ == "__main__":
    main()
