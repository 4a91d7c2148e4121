# Co-teaching on images with symmetric label noise: each network picks its small-loss
# samples for the peer.
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--noise", type=float, default=0.4)
    p.add_argument("--forget-rate", type=float, default=0.4)
    p.add_argument("--num-gradual", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args([])


def noisy_dataset(n, noise, n_classes=4, seed=3):
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, n_classes, n)
    protos = rng.normal(size=(n_classes, 1, 12, 12))
    images = protos[clean] + 0.7 * rng.normal(size=(n, 1, 12, 12))
    flip = rng.random(n) < noise
    noisy = np.where(flip, rng.integers(0, n_classes, n), clean)
    return TensorDataset(
        torch.tensor(images, dtype=torch.float32),
        torch.tensor(noisy, dtype=torch.long),
        torch.tensor(clean, dtype=torch.long),
    )


class SmallCNN(nn.Module):
    def __init__(self, n_classes=4):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.fc = nn.Linear(16, n_classes)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.fc(x.mean(dim=(2, 3)))


def coteaching_loss(y1, y2, targets, forget_rate):
    loss1 = F.cross_entropy(y1, targets, reduction="none")
    loss2 = F.cross_entropy(y2, targets, reduction="none")
    order1 = torch.argsort(loss1.detach())
    order2 = torch.argsort(loss2.detach())

    remember_rate = 1 - forget_rate
    num_remember = int(remember_rate * len(loss1))
    pick1 = order1[:num_remember]
    pick2 = order2[:num_remember]

    # exchange
    loss1_update = F.cross_entropy(y1[pick2], targets[pick2])
    loss2_update = F.cross_entropy(y2[pick1], targets[pick1])
    return loss1_update, loss2_update


@torch.no_grad()
def accumulate_accuracy(state, y1, y2, clean):
    state[0] += (y1.argmax(1) == clean).sum()
    state[1] += (y2.argmax(1) == clean).sum()


def run(args):
    torch.manual_seed(0)
    device = torch_xla.device()
    rate_schedule = np.ones(args.epochs) * args.forget_rate
    rate_schedule[: args.num_gradual] = np.linspace(0, args.forget_rate, args.num_gradual)

    train = noisy_dataset(192, args.noise)
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    device_loader = pl.MpDeviceLoader(loader, device)

    net1, net2 = SmallCNN().to(device), SmallCNN().to(device)
    opt1 = torch.optim.SGD(net1.parameters(), lr=args.lr * 10, momentum=0.9)
    opt2 = torch.optim.SGD(net2.parameters(), lr=args.lr * 10, momentum=0.9)

    for epoch in range(args.epochs):
        net1.train()
        net2.train()
        correct = torch.zeros(2, device=device)
        for images, labels, clean in device_loader:
            y1, y2 = net1(images), net2(images)
            l1, l2 = coteaching_loss(y1, y2, labels, rate_schedule[epoch])
            opt1.zero_grad()
            l1.backward()
            xm.optimizer_step(opt1)
            opt2.zero_grad()
            l2.backward()
            xm.optimizer_step(opt2)
            accumulate_accuracy(correct, y1.detach(), y2.detach(), clean)
        a1, a2 = (correct / len(train)).tolist()
        print(f"epoch {epoch:2d} forget {rate_schedule[epoch]:.3f} acc(clean) {a1:.3f} {a2:.3f}")


if __name__ == "__main__":
    run(get_args())
