"""Speaker embeddings: a small TDNN trained with batch-all triplet loss.

Batches hold P speakers with K utterances each.  Anchors, positives and
negatives are all formed inside the batch.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset, Sampler


class FbankCorpus(Dataset):
    def __init__(self, speakers, utterances, mels=20, frames=40, seed=0):
        rng = np.random.default_rng(seed)
        voice = rng.standard_normal((speakers, mels, 1))
        self.labels = np.repeat(np.arange(speakers), utterances)
        noise = rng.standard_normal((len(self.labels), mels, frames))
        drift = np.cumsum(rng.standard_normal((len(self.labels), 1, frames)), -1) * 0.1
        self.feats = (0.6 * voice[self.labels] + noise + drift).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        f = self.feats[i]
        return f - f.mean(axis=1, keepdims=True) * 0.5, int(self.labels[i])


class PKSampler(Sampler):
    def __init__(self, labels, p, k, batches, seed):
        self.by_speaker = {s: np.flatnonzero(labels == s) for s in np.unique(labels)}
        self.p, self.k, self.batches = p, k, batches
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            chosen = self.rng.choice(list(self.by_speaker), self.p, replace=False)
            yield [int(i) for s in chosen
                   for i in self.rng.choice(self.by_speaker[s], self.k, replace=False)]


class TDNN(nn.Module):
    def __init__(self, mels=20, width=24, emb=16):
        super().__init__()
        self.frame = nn.Sequential(
            nn.Conv1d(mels, width, 5), nn.ReLU(),
            nn.Conv1d(width, width, 3, dilation=3), nn.ReLU())
        self.segment = nn.Linear(2 * width, emb)

    def forward(self, x):
        h = self.frame(x)
        stats = torch.cat([h.mean(-1), (h.var(-1) + 1e-5).sqrt()], dim=1)
        return F.normalize(self.segment(stats), dim=1)


def pairwise_sq_dist(e):
    dot = e @ e.t()
    sq = dot.diagonal()
    return (sq[None] - 2 * dot + sq[:, None]).clamp_min(0.0)


def batch_all_triplet(emb, labels, margin):
    dist = pairwise_sq_dist(emb)
    same = labels[:, None] == labels[None]
    eye = torch.eye(len(labels), dtype=torch.bool, device=emb.device)
    valid = (same & ~eye)[:, :, None] & (~same)[:, None, :]

    triplets = dist[:, :, None] - dist[:, None, :] + margin
    triplets = F.relu(triplets) * valid
    active = triplets[triplets > 1e-12]
    fraction = active.numel() / valid.numel()
    return active.mean(), fraction


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--speakers", type=int, default=16)
    ap.add_argument("--p", type=int, default=4)
    ap.add_argument("--k", type=int, default=3)
    ap.add_argument("--margin", type=float, default=0.4)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--log-every", type=int, default=5)
    args = ap.parse_args()

    torch.manual_seed(13)
    device = xm.xla_device()

    corpus = FbankCorpus(args.speakers, utterances=10)
    sampler = PKSampler(corpus.labels, args.p, args.k, args.steps, seed=13)
    loader = DataLoader(corpus, batch_sampler=sampler)

    model = TDNN().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warm = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 10) * 0.99)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    for step, (feats, labels) in enumerate(loader):
        feats, labels = feats.to(device), labels.to(device)
        emb = model(feats)
        loss, fraction = batch_all_triplet(emb, labels, args.margin)

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        warm.step()

        running += loss.detach()
        torch_xla.sync()

        if (step + 1) % args.log_every == 0:
            print(f"step {step + 1} loss {running.item() / args.log_every:.4f} "
                  f"active {fraction:.2f} lr {warm.get_last_lr()[0]:.5f}")
            running.zero_()
            torch_xla.sync()

    print("done")


if __name__ == "__main__":
    main()
