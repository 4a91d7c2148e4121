"""DeepFM on a synthetic ad log. Hashed categorical fields plus dense counters,
streaming log-loss and AUC printed while training."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryAccuracy

FIELDS = [("site", 40), ("ad_slot", 6), ("campaign", 120), ("device", 12),
          ("os", 8), ("hour", 24), ("geo", 60)]
N_DENSE = 5


class AdLog(Dataset):
    def __init__(self, n_rows, seed):
        rng = np.random.default_rng(seed)
        self.cat = np.stack([rng.zipf(1.4, n_rows) % card for _, card in FIELDS], 1)
        self.dense = np.log1p(rng.poisson(3.0, (n_rows, N_DENSE))).astype(np.float32)
        wrng = np.random.default_rng(7)
        bias = [wrng.normal(0, 0.8, card) for _, card in FIELDS]
        z = sum(b[self.cat[:, i]] for i, b in enumerate(bias))
        z = z + self.dense @ wrng.normal(0, 0.4, N_DENSE) - 1.5
        self.click = (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.float32)

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return self.cat[i], self.dense[i], self.click[i]


class DeepFM(nn.Module):
    def __init__(self, dim=8, hidden=(32, 16), drop=0.1):
        super().__init__()
        cards = torch.tensor([card for _, card in FIELDS])
        self.register_buffer("offset", torch.cumsum(cards, 0) - cards)
        total = int(cards.sum())
        self.first = nn.Embedding(total, 1)
        self.second = nn.Embedding(total, dim)
        self.dense_first = nn.Linear(N_DENSE, 1)
        self.dense_proj = nn.Linear(N_DENSE, dim)
        layers, width = [], dim * (len(FIELDS) + 1)
        for h in hidden:
            layers += [nn.Linear(width, h), nn.LayerNorm(h), nn.ReLU(), nn.Dropout(drop)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))
        nn.init.normal_(self.second.weight, std=0.02)
        nn.init.zeros_(self.first.weight)

    def forward(self, cat, dense):
        idx = cat + self.offset
        linear = self.first(idx).sum(1).squeeze(-1) + self.dense_first(dense).squeeze(-1)
        v = torch.cat([self.second(idx), self.dense_proj(dense).unsqueeze(1)], 1)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(-1)
        return linear + pair + self.deep(v.flatten(1)).squeeze(-1)


class Meter:
    """Everything that goes on the training dashboard."""

    def __init__(self, device):
        self.loss = MeanMetric().to(device)
        self.scores = MetricCollection({
            "auc": BinaryAUROC(validate_args=False),
            "acc": BinaryAccuracy(validate_args=False),
        }).to(device)

    def update(self, loss, prob, target):
        self.loss.update(loss)
        self.scores.update(prob, target)

    def snapshot(self):
        out = {k: v.item() for k, v in self.scores.compute().items()}
        out["loss"] = self.loss.compute().item()
        return out

    def reset(self):
        self.loss.reset()
        self.scores.reset()


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=3200)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--log-every", type=int, default=5)
    p.add_argument("--seed", type=int, default=2024)
    return p.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    loader = DataLoader(AdLog(args.rows, args.seed), batch_size=args.batch_size,
                        shuffle=True, drop_last=True)
    model = DeepFM().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    meter = Meter(device)

    model.train()
    tic = time.time()
    for step, (cat, dense, click) in enumerate(loader, 1):
        cat, dense, click = cat.to(device), dense.to(device), click.to(device)
        opt.zero_grad()
        logit = model(cat, dense)
        loss = F.binary_cross_entropy_with_logits(logit, click)
        loss.backward()
        opt.step()
        meter.update(loss.detach(), torch.sigmoid(logit.detach()), click.long())
        torch_xla.sync()

        if step % args.log_every == 0:
            m = meter.snapshot()
            print(f"step {step:3d}  loss {m['loss']:.4f}  auc {m['auc']:.4f}  "
                  f"acc {m['acc']:.4f}  {time.time() - tic:.1f}s")

    final = meter.snapshot()
    meter.reset()
    print("epoch:", {k: round(v, 4) for k, v in final.items()})


if __name__ == "__main__":
    main()
