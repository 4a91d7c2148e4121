"""Residual network with stochastic depth, small images."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Bernoulli
import torch_xla
import torch_xla.core.xla_model as xm


def synthetic_images(n, classes, rng):
    y = rng.randint(0, classes, n)
    freq = 1 + np.arange(classes)
    grid = np.linspace(0, np.pi, 16)
    waves = np.sin(freq[:, None] * grid[None])
    x = waves[y][:, None, :, None] * waves[y][:, None, None, :]
    x = np.repeat(x, 3, axis=1) + 0.5 * rng.randn(n, 3, 16, 16)
    return torch.from_numpy(x.astype("float32")), torch.from_numpy(y).long()


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride, survival):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.AvgPool2d(stride), nn.Conv2d(cin, cout, 1, bias=False))
        self.survival = survival
        self.gate = Bernoulli(torch.tensor([float(survival)]))

    def residual(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return self.bn2(self.conv2(h))

    def forward(self, x):
        identity = self.shortcut(x)
        if self.training:
            if torch.equal(self.gate.sample(), torch.ones(1)):
                return F.relu(identity + self.residual(x))
            return F.relu(identity)
        return F.relu(identity + self.survival * self.residual(x))


class StochasticDepthNet(nn.Module):
    def __init__(self, widths=(8, 16), blocks=(4, 4), classes=6, final_survival=0.5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(widths[0]), nn.ReLU())
        probs = torch.linspace(1.0, final_survival, sum(blocks)).tolist()
        layers, cin, k = [], widths[0], 0
        for stage, (w, n) in enumerate(zip(widths, blocks)):
            for j in range(n):
                stride = 2 if stage > 0 and j == 0 else 1
                layers.append(BasicBlock(cin, w, stride, probs[k]))
                cin, k = w, k + 1
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(cin, classes)

    def forward(self, x):
        h = self.body(self.stem(x))
        return self.head(h.mean((2, 3)))


@torch.no_grad()
def evaluate(model, batches, device):
    model.eval()
    hits, total = torch.zeros((), device=device), 0
    for x, y in batches:
        pred = model(x.to(device)).argmax(1)
        hits = hits + (pred == y.to(device)).sum()
        total += y.numel()
        xm.mark_step()
    model.train()
    return hits.item() / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(3)
    rng = np.random.RandomState(3)
    device = xm.xla_device()

    x_train, y_train = synthetic_images(208, 6, rng)
    x_val, y_val = synthetic_images(48, 6, rng)
    val = list(zip(x_val.split(args.batch), y_val.split(args.batch)))

    model = StochasticDepthNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)

    for epoch in range(args.epochs):
        order = torch.from_numpy(rng.permutation(len(x_train)))
        for idx in order.split(args.batch):
            x = x_train[idx].to(device)
            y = y_train[idx].to(device)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            xm.mark_step()
        sched.step()
        acc = evaluate(model, val, device)
        print(f"epoch {epoch}: loss {loss.item():.3f}  val acc {acc:.3f}")


if __name__ == "__main__":
    main()
