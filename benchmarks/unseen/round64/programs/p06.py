"""Co-teaching on noisy tabular labels: two MLPs pick the small-loss rows for each other."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
import torch_xla
import torch_xla.core.xla_model as xm


def load_data(noise, seed):
    x, y = make_classification(n_samples=1600, n_features=24, n_informative=12, n_classes=4,
                               class_sep=1.5, random_state=seed)
    x = StandardScaler().fit_transform(x).astype("float32")
    rng = np.random.RandomState(seed)
    noisy = y.copy()
    flip = rng.rand(len(y)) < noise
    noisy[flip] = rng.randint(0, 4, flip.sum())
    n = 1280
    return ((torch.from_numpy(x[:n]), torch.from_numpy(noisy[:n])),
            (torch.from_numpy(x[n:]), torch.from_numpy(y[n:])))


class TabularMLP(nn.Module):
    def __init__(self, n_in, n_out, width=32, p=0.1):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(p)) for _ in range(2))
        self.out = nn.Linear(width, n_out)

    def forward(self, x):
        h = self.inp(x)
        for blk in self.blocks:
            h = h + blk(h)
        return self.out(h)


def forget_schedule(total_steps, final_rate, warm_frac=0.9, exponent=1):
    """Share of the batch to drop at each step."""
    rate = np.full(total_steps, final_rate)
    t_k = int(total_steps * warm_frac)
    rate[:t_k] = np.linspace(0, final_rate ** exponent, t_k)
    return rate


def coteaching_loss(logits_a, logits_b, y, forget_rate):
    loss_a = F.cross_entropy(logits_a, y, reduction="none")
    loss_b = F.cross_entropy(logits_b, y, reduction="none")
    rank_a = torch.argsort(loss_a.detach())
    rank_b = torch.argsort(loss_b.detach())

    num_keep = int((1 - forget_rate) * loss_a.size(0))
    clean_a, clean_b = rank_a[:num_keep], rank_b[:num_keep]

    upd_a = F.cross_entropy(logits_a[clean_b], y[clean_b])
    upd_b = F.cross_entropy(logits_b[clean_a], y[clean_a])
    return upd_a, upd_b


def accuracy(model, x, y, device, batch=160):
    model.eval()
    correct = 0
    with torch.no_grad():
        for xb, yb in zip(x.split(batch), y.split(batch)):
            pred = model(xb.to(device)).argmax(1)
            xm.mark_step()
            correct += (pred.cpu() == yb).sum().item()
    model.train()
    return correct / len(y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=160)
    ap.add_argument("--noise", type=float, default=0.4)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(13)
    device = torch_xla.device()
    (x_tr, y_tr), (x_te, y_te) = load_data(args.noise, seed=13)

    net_a = TabularMLP(24, 4).to(device)
    net_b = TabularMLP(24, 4).to(device)
    opt_a = torch.optim.AdamW(net_a.parameters(), lr=args.lr, weight_decay=1e-2)
    opt_b = torch.optim.AdamW(net_b.parameters(), lr=args.lr, weight_decay=1e-2)

    steps_per_epoch = len(x_tr) // args.batch_size
    rates = forget_schedule(args.epochs * steps_per_epoch, final_rate=args.noise)
    gen = torch.Generator().manual_seed(13)

    step = 0
    for epoch in range(args.epochs):
        perm = torch.randperm(len(x_tr), generator=gen)
        for i in range(steps_per_epoch):
            rows = perm[i * args.batch_size:(i + 1) * args.batch_size]
            xb, yb = x_tr[rows].to(device), y_tr[rows].to(device)
            loss_a, loss_b = coteaching_loss(net_a(xb), net_b(xb), yb, rates[step])

            opt_a.zero_grad()
            opt_b.zero_grad()
            (loss_a + loss_b).backward()
            opt_a.step()
            opt_b.step()
            xm.mark_step()
            step += 1

        acc_a = accuracy(net_a, x_te, y_te, device)
        acc_b = accuracy(net_b, x_te, y_te, device)
        print(f"epoch {epoch}  loss {loss_a.item():.3f}/{loss_b.item():.3f}  "
              f"test acc {acc_a:.3f}/{acc_b:.3f}  forget {rates[step - 1]:.2f}")


if __name__ == "__main__":
    main()
