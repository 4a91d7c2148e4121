"""Class-incremental image learning: experience replay plus distillation from the previous model."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset


class ReservoirBuffer:
    def __init__(self, capacity, gen):
        self.capacity, self.gen, self.seen = capacity, gen, 0
        self.x, self.y = [], []

    def add(self, xs, ys):
        for x, y in zip(xs, ys):
            self.seen += 1
            if len(self.x) < self.capacity:
                self.x.append(x)
                self.y.append(y)
                continue
            j = int(torch.randint(0, self.seen, (1,), generator=self.gen))
            if j < self.capacity:
                self.x[j], self.y[j] = x, y

    def sample(self, n):
        idx = torch.randperm(len(self.x), generator=self.gen)[:n]
        return torch.stack([self.x[i] for i in idx]), torch.stack([self.y[i] for i in idx])


class Net(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 9, 48), nn.ReLU())
        self.classifier = nn.Linear(48, n_classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class Replay:
    """One learner over a stream of tasks."""

    def __init__(self, n_classes, per_task, lr=0.03, temp=2.0, alpha=0.7, replay=8):
        self.device = torch_xla.device()
        self.net = Net(n_classes).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
        self.buffer = ReservoirBuffer(40, torch.Generator().manual_seed(2))
        self.per_task, self.temp, self.alpha, self.replay = per_task, temp, alpha, replay
        self.teacher, self.n_old = None, 0

    def distill(self, logits, x, y):
        old = y < self.n_old
        with torch.no_grad():
            ref = self.teacher(x)
        student = F.log_softmax(logits[old] / self.temp, dim=1)
        target = F.softmax(ref[old] / self.temp, dim=1)
        return -(target * student).sum(1).mean() * self.temp ** 2

    def observe(self, x, y):
        new = (x, y)
        if self.buffer.x:
            mx, my = self.buffer.sample(self.replay)
            x, y = torch.cat([x, mx]), torch.cat([y, my])
        x, y = x.to(self.device), y.to(self.device)
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        if self.teacher is not None:
            loss = loss + self.alpha * self.distill(logits, x, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        self.buffer.add(*new)
        return loss

    def end_task(self):
        self.teacher = copy.deepcopy(self.net).eval().requires_grad_(False)
        self.n_old += self.per_task

    @torch.no_grad()
    def accuracy(self, loader):
        self.net.eval()
        right = total = 0
        for x, y in loader:
            pred = self.net(x.to(self.device)).argmax(1)
            torch_xla.sync()
            right += int((pred.cpu() == y).sum())
            total += len(y)
        self.net.train()
        return right / total


def make_task(classes, n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.randint(0, len(classes), (n,), generator=g)]
    proto = torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(99))
    return TensorDataset(proto[y] + 0.8 * torch.randn(n, 3, 12, 12, generator=g), y)


def main():
    torch.manual_seed(4)
    splits = [(0, 1), (2, 3), (4, 5), (6, 7)]
    test_sizes = [37, 52, 45, 41]
    train = [make_task(c, 84, i) for i, c in enumerate(splits)]
    test = [DataLoader(make_task(c, n, 50 + i), batch_size=16) for i, (c, n) in enumerate(zip(splits, test_sizes))]
    learner = Replay(n_classes=8, per_task=2)
    for t, ds in enumerate(train):
        for x, y in DataLoader(ds, batch_size=12, shuffle=True, drop_last=True):
            loss = learner.observe(x, y)
        learner.end_task()
        accs = [learner.accuracy(test[i]) for i in range(t + 1)]
        print(f"task {t} loss {loss.item():.3f} acc " + " ".join(f"{a:.2f}" for a in accs))


if __name__ == "__main__":
    main()
