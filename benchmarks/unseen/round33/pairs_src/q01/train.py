"""12-lead ECG rhythm classification, small residual 1-d convnet, one-cycle schedule."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES = ["SR", "AF", "AFL", "SVT", "PVC"]


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 5, padding=2, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False) if (cin != cout or stride > 1) else nn.Identity()

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


class EcgNet(nn.Module):
    def __init__(self, leads=12, width=8, n_classes=len(CLASSES)):
        super().__init__()
        self.stem = nn.Conv1d(leads, width, 7, stride=2, padding=3)
        self.b1 = ResBlock(width, width, 1)
        self.b2 = ResBlock(width, 2 * width, 2)
        self.head = nn.Linear(4 * width, n_classes)

    def forward(self, x):
        h = self.b2(self.b1(F.relu(self.stem(x))))
        pooled = torch.cat([h.mean(-1), h.amax(-1)], dim=1)
        return self.head(pooled)


def synth_batch(rng, n, length):
    t = np.arange(length) / 100.0
    y = rng.integers(0, len(CLASSES), size=n)
    rate = 0.8 + 0.35 * y[:, None] + 0.05 * rng.standard_normal((n, 1))
    base = np.sin(2 * np.pi * rate * t) ** 9
    leads = rng.uniform(0.3, 1.2, size=(n, 12, 1))
    x = leads * base[:, None, :] + 0.1 * rng.standard_normal((n, 12, length))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def param_groups(model, wd):
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": wd}, {"params": no_decay, "weight_decay": 0.0}]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--length", type=int, default=160)
    ap.add_argument("--max-lr", type=float, default=3e-3)
    ap.add_argument("--wd", type=float, default=0.01)
    args = ap.parse_args()

    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    device = torch_xla.device()
    model = EcgNet().to(device)
    opt = torch.optim.AdamW(param_groups(model, args.wd), lr=args.max_lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=args.max_lr, total_steps=args.steps, pct_start=0.3, anneal_strategy="cos")
    crit = nn.CrossEntropyLoss(label_smoothing=0.05)

    model.train()
    for step in range(args.steps):
        x, y = synth_batch(rng, args.bs, args.length)
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 2 == 0:
            xm.master_print(f"step {step:3d} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
