"""Credit-default style tabular model: embeddings + numeric branch, short last batch, EMA weights, validation AUC."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader, TensorDataset

CARDINALITIES = (12, 5, 31, 7)
N_NUM = 9


def make_table(n, rng):
    cats = np.stack([rng.integers(0, c, n) for c in CARDINALITIES], 1)
    num = rng.lognormal(0.0, 0.7, (n, N_NUM)).astype(np.float32)
    miss = rng.random((n, N_NUM)) < 0.08
    effect = [rng.normal(0, 0.8, c) for c in CARDINALITIES]
    logit = sum(e[cats[:, i]] for i, e in enumerate(effect))
    logit = logit + 0.9 * np.log(num[:, 0] / num[:, 1]) - 0.4 * num[:, 2] * (cats[:, 1] == 2) - 0.8
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    num[miss] = np.nan
    return cats, num, y


class Preprocess:
    """Log-transform, median imputation with indicators and standardisation, fitted on the training part."""

    def fit(self, num):
        z = np.log1p(num)
        self.median = np.nanmedian(z, 0)
        z = np.where(np.isnan(z), self.median, z)
        self.mean, self.std = z.mean(0), z.std(0) + 1e-6
        return self

    def __call__(self, num):
        z = np.log1p(num)
        nan = np.isnan(z)
        z = (np.where(nan, self.median, z) - self.mean) / self.std
        return np.concatenate([z, nan], 1).astype(np.float32)


class TabNet(nn.Module):
    def __init__(self, width=32, p=0.1):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, min(8, (c + 1) // 2)) for c in CARDINALITIES)
        d = sum(e.embedding_dim for e in self.embs) + 2 * N_NUM
        self.inp = nn.Linear(d, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                          nn.Dropout(p), nn.Linear(2 * width, width)) for _ in range(2))
        self.out = nn.Linear(width, 1)

    def forward(self, cats, num):
        x = torch.cat([e(cats[:, i]) for i, e in enumerate(self.embs)] + [num], -1)
        x = self.inp(x)
        for b in self.blocks:
            x = x + b(x)
        return self.out(x).squeeze(-1)


def mixup(cats_logits, y, lam):
    return lam * F.binary_cross_entropy_with_logits(cats_logits, y) + \
        (1 - lam) * F.binary_cross_entropy_with_logits(cats_logits, y.flip(0))


def validate(model, ema, loader, device):
    """AUC of the averaged weights; swaps them in and out."""
    backup = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p, e in zip(model.parameters(), ema):
            p.copy_(e)
    model.eval()
    scores, labels = [], []
    with torch.no_grad():
        for cats, num, y in loader:
            s = model(cats.to(device), num.to(device))
            xm.mark_step()
            scores.append(s.cpu())
            labels.append(y)
        for p, b in zip(model.parameters(), backup):
            p.copy_(b)
    xm.mark_step()
    model.train()
    return roc_auc_score(torch.cat(labels).numpy(), torch.cat(scores).numpy())


def main():
    torch.manual_seed(61)
    rng = np.random.default_rng(61)
    xm.set_rng_state(61)
    device = torch_xla.device()
    epochs, bs = 6, 128

    cats, num, y = make_table(1500, rng)
    cut = 1110
    prep = Preprocess().fit(num[:cut])
    tensors = [torch.as_tensor(a) for a in (cats, prep(num), y)]
    train = TensorDataset(*[t[:cut] for t in tensors])
    val = TensorDataset(*[t[cut:] for t in tensors])
    train_loader = DataLoader(train, bs, shuffle=True, generator=torch.Generator().manual_seed(62))
    val_loader = DataLoader(val, 160)

    model = TabNet().to(device)
    ema = [p.detach().clone() for p in model.parameters()]
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=epochs * len(train_loader) + 5)
    xm.mark_step()

    step = 0
    for epoch in range(epochs):
        losses = []
        for cats_b, num_b, y_b in train_loader:
            cats_b, num_b, y_b = cats_b.to(device), num_b.to(device), y_b.to(device)
            lam = float(rng.beta(0.4, 0.4)) * 0.5 + 0.49
            mixed = lam * num_b + (1 - lam) * num_b.flip(0)
            loss = mixup(model(cats_b, mixed), y_b, lam)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            sched.step()
            decay = min(0.98, (1 + step) / (10 + step))
            with torch.no_grad():
                for p, e in zip(model.parameters(), ema):
                    e.lerp_(p.detach(), 1 - decay)
            losses.append(loss.detach())
            xm.mark_step()
            step += 1
        auc = validate(model, ema, val_loader, device)
        mean = sum(l.item() for l in losses) / len(losses)
        print(f"epoch {epoch} step {step} loss {mean:.4f} val auc {auc:.4f}")


if __name__ == "__main__":
    main()
