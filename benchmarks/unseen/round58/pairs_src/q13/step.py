import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from timm.layers import DropPath


class SpatioTemporalConv(nn.Module):
    """(2+1)D convolution: 1xkxk followed by kx1x1."""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        mid = (cin * cout * 27) // (cin * 9 + cout * 3)
        self.spatial = nn.Conv3d(cin, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.norm = nn.GroupNorm(1, mid)
        self.temporal = nn.Conv3d(mid, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)

    def forward(self, x):
        return self.temporal(F.relu(self.norm(self.spatial(x))))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride, drop_path):
        super().__init__()
        self.conv = SpatioTemporalConv(cin, cout, stride)
        self.norm = nn.GroupNorm(2, cout)
        self.short = nn.Conv3d(cin, cout, 1, stride, bias=False)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        return F.relu(self.drop_path(self.norm(self.conv(x))) + self.short(x))


class ClipClassifier(nn.Module):
    def __init__(self, classes=6, width=4):
        super().__init__()
        self.stem = SpatioTemporalConv(3, width)
        self.layer1 = Residual(width, width, 1, 0.05)
        self.layer2 = Residual(width, 2 * width, 2, 0.1)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, clip):
        h = self.layer2(self.layer1(F.relu(self.stem(clip))))
        return self.fc(self.drop(h.mean((2, 3, 4))))


class ClipDataset:
    def __init__(self, n, frames=4, size=8, classes=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.video = torch.rand(n, 3, 2 * frames, size, size, generator=g)
        self.label = torch.randint(0, classes, (n,), generator=g)
        self.frames = frames

    def batches(self, bs, train):
        order = list(range(len(self.label)))
        if train:
            random.shuffle(order)
        for i in range(0, len(order) - bs + 1, bs):
            idx = order[i:i + bs]
            t0 = random.randint(0, self.frames - 1) if train else self.frames // 2
            yield self.video[idx][:, :, t0:t0 + self.frames], self.label[idx]


class Trainer:
    def __init__(self, model, device, epochs, eval_every):
        self.device = device
        self.model = model.to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 40)
        self.epochs, self.eval_every = epochs, eval_every
        self.best = 0.0

    def train_step(self, clip, label):
        logits = self.model(clip)
        loss = F.cross_entropy(logits, label, label_smoothing=0.1)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.sched.step()
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def validate(self, data):
        self.model.eval()
        correct = torch.zeros((), device=self.device)
        seen = 0
        for clip, label in data.batches(8, train=False):
            pred = self.model(clip.to(self.device)).argmax(1)
            correct += (pred == label.to(self.device)).sum()
            seen += len(label)
            torch_xla.sync()
        return correct.item() / seen

    def fit(self, train, val):
        step = 0
        for epoch in range(self.epochs):
            self.model.train()
            for clip, label in train.batches(8, train=True):
                loss = self.train_step(clip.to(self.device), label.to(self.device))
                step += 1
                if step % self.eval_every == 0:
                    acc = self.validate(val)
                    self.best = max(self.best, acc)
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f} val {acc:.3f}")


def main():
    torch.manual_seed(0)
    random.seed(0)
    device = torch_xla.device()
    trainer = Trainer(ClipClassifier(), device, epochs=1, eval_every=3)
    torch_xla.sync()
    trainer.fit(ClipDataset(48), ClipDataset(16, seed=1))


if __name__ == "__main__":
    main()
