"""Product-image style metric learning: embedding network with a cross-batch memory of
past embeddings and hard-pair mining, on synthetic class-conditional vectors."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_CLASSES, DIM_IN, DIM_EMB = 24, 40, 24


class PKSampler:
    """P classes with K samples each, every step."""

    def __init__(self, p, k, seed):
        self.p, self.k = p, k
        self.rng = np.random.RandomState(seed)
        self.centers = self.rng.randn(N_CLASSES, DIM_IN).astype("float32")

    def next(self):
        labels = self.rng.choice(N_CLASSES, self.p, replace=False).repeat(self.k)
        x = self.centers[labels] + 0.8 * self.rng.randn(len(labels), DIM_IN).astype("float32")
        return torch.from_numpy(x), torch.from_numpy(labels.astype("int64"))


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(DIM_IN, 64), nn.ReLU(), nn.LayerNorm(64),
            nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64),
            nn.Linear(64, DIM_EMB))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class CrossBatchMemory:
    """FIFO of the most recent embeddings and their labels."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.feats = None
        self.labels = None

    def add(self, feats, labels):
        feats = feats.detach()
        if self.feats is None:
            self.feats, self.labels = feats, labels
            return
        self.feats = torch.cat([feats, self.feats])[: self.capacity]
        self.labels = torch.cat([labels, self.labels])[: self.capacity]

    def get(self):
        return self.feats, self.labels


def pair_loss(emb, labels, ref, ref_labels, pos_margin=0.9, neg_margin=0.4):
    """Contrastive loss of a batch against a reference set, one value an anchor."""
    sim = emb @ ref.t()
    same = (labels[:, None] == ref_labels[None, :]).float()
    pos = F.relu(pos_margin - sim) * same
    neg = F.relu(sim - neg_margin) * (1 - same)
    pos = pos.sum(1) / (same.sum(1) + 1e-6)
    neg = neg.sum(1) / ((neg > 0).float().sum(1) + 1e-6)
    return pos + neg


class HardMining:
    """Keeps the hardest anchors of a batch; the kept share shrinks over training."""

    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def ratio(self, step):
        t = min(1.0, step / self.steps)
        return self.start + (self.end - self.start) * t

    def __call__(self, per_anchor, step):
        k = max(1, int(round(self.ratio(step) * per_anchor.size(0))))
        hardest, _ = torch.topk(per_anchor, k)
        return hardest.mean()


@torch.no_grad()
def recall_at_1(model, x, labels):
    model.eval()
    e = model(x)
    sim = e @ e.t() - 2.0 * torch.eye(len(x), device=x.device)
    hit = (labels[sim.argmax(1)] == labels).float().mean()
    torch_xla.sync()
    model.train()
    return hit.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--memory", type=int, default=2048)
    ap.add_argument("--classes-per-batch", type=int, default=8)
    ap.add_argument("--samples-per-class", type=int, default=4)
    args = ap.parse_args()

    torch.manual_seed(21)
    device = torch_xla.device()
    sampler = PKSampler(args.classes_per_batch, args.samples_per_class, seed=21)
    val = [sampler.next() for _ in range(4)]
    x_val = torch.cat([v[0] for v in val]).to(device)
    y_val = torch.cat([v[1] for v in val]).to(device)

    model = Embedder().to(device)
    memory = CrossBatchMemory(args.memory)
    mining = HardMining(1.0, 0.3, args.steps)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)

    for step in range(args.steps):
        x, y = (t.to(device) for t in sampler.next())
        emb = model(x)
        memory.add(emb, y)
        ref, ref_y = memory.get()
        in_batch = pair_loss(emb, y, emb, y)
        cross = pair_loss(emb, y, ref, ref_y)
        loss = mining(in_batch + 0.5 * cross, step)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            r1 = recall_at_1(model, x_val, y_val)
            print(f"step {step + 1} loss {loss.item():.4f} recall@1 {r1:.3f}")


if __name__ == "__main__":
    main()
