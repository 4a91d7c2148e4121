"""Click-through-rate model (DeepFM) with accelerate: accumulation, tail batches, validation."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

FIELDS = (40, 24, 12, 7, 60)
DENSE = 4


class Impressions(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in FIELDS], 1)
        self.num = torch.rand(n, DENSE, generator=g)
        taste = torch.Generator().manual_seed(99)
        w = [torch.randn(c, generator=taste) for c in FIELDS]
        logit = sum(w[f][self.cat[:, f]] for f in range(len(FIELDS))) + 2 * self.num[:, 0] - 2.5
        self.y = (torch.rand(n, generator=g) < torch.sigmoid(logit)).float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.cat[i], self.num[i], self.y[i]


class DeepFM(nn.Module):
    def __init__(self, dim=6, hidden=16):
        super().__init__()
        offsets = torch.tensor((0,) + FIELDS[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.linear = nn.Embedding(sum(FIELDS), 1)
        self.factors = nn.Embedding(sum(FIELDS), dim)
        nn.init.normal_(self.factors.weight, std=0.05)
        nn.init.zeros_(self.linear.weight)
        self.deep = nn.Sequential(nn.Linear(dim * len(FIELDS) + DENSE, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, cat, num):
        idx = cat + self.offsets
        first = self.linear(idx).sum((1, 2))
        v = self.factors(idx)
        second = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        deep = self.deep(torch.cat([v.flatten(1), num], 1)).squeeze(1)
        return first + second + deep


@torch.no_grad()
def validate(accelerator, model, loader):
    model.eval()
    loss = torch.zeros((), device=accelerator.device)
    seen = 0
    for cat, num, y in loader:
        logits = model(cat, num)
        loss += F.binary_cross_entropy_with_logits(logits, y, reduction="sum")
        seen += y.shape[0]
        xm.mark_step()
    model.train()
    return loss.item() / seen


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--accum", type=int, default=3)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=21)
    args = ap.parse_args()

    set_seed(args.seed)
    accelerator = Accelerator(gradient_accumulation_steps=args.accum)

    train_set, val_set = Impressions(360, 1), Impressions(150, 2)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)

    model = DeepFM().to(accelerator.device)
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.98)
    model, opt, train_loader, val_loader, sched = accelerator.prepare(model, opt, train_loader, val_loader, sched)

    micro = 0
    for epoch in range(args.epochs):
        total = torch.zeros((), device=accelerator.device)
        for cat, num, y in train_loader:
            with accelerator.accumulate(model):
                loss = F.binary_cross_entropy_with_logits(model(cat, num), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            total += loss.detach()
            micro += 1
            xm.mark_step()
        train_loss = total.item() / len(train_loader)
        val_loss = validate(accelerator, model, val_loader)
        print(f"epoch {epoch} micro-steps {micro} train {train_loss:.4f} val {val_loss:.4f}")


if __name__ == "__main__":
    main()
