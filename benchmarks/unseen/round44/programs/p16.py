"""CTC phoneme recogniser on synthetic filterbank features with length buckets.
Utterances are sorted into a few frame lengths and padded up to the bucket edge."""
import collections
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_FILT, N_SYMS = 16, 12
BUCKETS = (24, 40, 64)
BATCH = {24: 12, 40: 8, 64: 4}
MAX_TARGET = 10


def utterance(rng, table):
    n = rng.randint(3, MAX_TARGET + 1)
    syms = rng.randint(1, N_SYMS, size=n)
    feats = np.concatenate([np.repeat(table[s][None], rng.randint(4, 7), 0) for s in syms])
    feats = feats + 0.2 * rng.randn(*feats.shape)
    return feats.astype("float32"), syms


class BucketLoader:
    """Yields full batches only; what is left over waits for the next epoch."""

    def __init__(self, n, seed):
        self.rng = np.random.RandomState(seed)
        table = self.rng.randn(N_SYMS, N_FILT)
        self.utts = [utterance(self.rng, table) for _ in range(n)]
        self.utts = [u for u in self.utts if len(u[0]) <= BUCKETS[-1]]

    def _collate(self, edge, utts):
        x = np.zeros((len(utts), edge, N_FILT), dtype="float32")
        y = np.zeros((len(utts), MAX_TARGET), dtype="int64")
        x_len = np.array([len(f) for f, _ in utts], dtype="int64")
        y_len = np.array([len(s) for _, s in utts], dtype="int64")
        for i, (f, s) in enumerate(utts):
            x[i, : len(f)] = f
            y[i, : len(s)] = s
        return tuple(torch.from_numpy(a) for a in (x, x_len, y, y_len))

    def epoch(self):
        waiting = collections.defaultdict(list)
        for i in self.rng.permutation(len(self.utts)):
            u = self.utts[i]
            edge = next(b for b in BUCKETS if len(u[0]) <= b)
            waiting[edge].append(u)
            if len(waiting[edge]) == BATCH[edge]:
                yield self._collate(edge, waiting.pop(edge))


class Recogniser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.sub = nn.Conv1d(N_FILT, dim, 3, stride=2, padding=1)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.out = nn.Linear(dim, N_SYMS)

    def forward(self, x):
        h = F.gelu(self.sub(x.transpose(1, 2))).transpose(1, 2)
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.gelu(conv(norm(h).transpose(1, 2))).transpose(1, 2)
        return self.out(h).log_softmax(-1)


def ctc_forward(log_probs, x_len, targets, y_len):
    """Batched CTC negative log-likelihood with the forward recursion, static shapes."""
    b, t_max, _ = log_probs.shape
    s_max = 2 * targets.size(1) + 1
    ext = torch.zeros(b, s_max, dtype=torch.long, device=targets.device)
    ext[:, 1::2] = targets
    skip = torch.zeros(b, s_max, dtype=torch.bool, device=targets.device)
    skip[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    emit = log_probs.gather(2, ext.unsqueeze(1).expand(b, t_max, s_max))
    neg = -1e5
    first = (torch.arange(s_max, device=ext.device) < 2).unsqueeze(0)
    alpha = torch.where(first, emit[:, 0], torch.full_like(emit[:, 0], neg))
    for t in range(1, t_max):
        one = F.pad(alpha, (1, 0), value=neg)[:, :-1]
        two = F.pad(alpha, (2, 0), value=neg)[:, :-2].masked_fill(~skip, neg)
        new = torch.logsumexp(torch.stack([alpha, one, two]), 0) + emit[:, t]
        alpha = torch.where((t < x_len).unsqueeze(1), new, alpha)
    last = (2 * y_len).unsqueeze(1)
    final = torch.logsumexp(torch.cat([alpha.gather(1, last), alpha.gather(1, last - 1)], 1), 1)
    return -(final / y_len).mean()


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    loader = BucketLoader(144, seed=8)
    model = Recogniser().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)

    step, history = 0, collections.defaultdict(list)
    for epoch in range(3):
        for batch in loader.epoch():
            x, x_len, y, y_len = (t.to(device) for t in batch)
            opt.zero_grad()
            frames = torch.div(x_len + 1, 2, rounding_mode="floor")
            loss = ctc_forward(model(x), frames, y, y_len)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            torch_xla.sync()
            history[x.size(1)].append(loss.detach())
            step += 1
        for edge in sorted(history):
            values = [v.item() for v in history[edge]]
            print(f"epoch {epoch} step {step} bucket {edge}: "
                  f"{sum(values) / len(values):.3f} over {len(values)}")
        history.clear()
        assert all(math.isfinite(v) for v in values)


if __name__ == "__main__":
    main()
