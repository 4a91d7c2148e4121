"""PointNet-style classifier for synthetic CAD primitives."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_POINTS = 64
NUM_CLASSES = 4
BATCH = 16
EPOCHS = 8
STEPS_PER_EPOCH = 5


def make_cloud(rng, label):
    u = rng.uniform(-1, 1, size=(NUM_POINTS, 3)).astype(np.float32)
    if label == 0:  # sphere
        u /= np.linalg.norm(u, axis=1, keepdims=True) + 1e-6
    elif label == 1:  # cylinder
        r = np.linalg.norm(u[:, :2], axis=1, keepdims=True) + 1e-6
        u[:, :2] /= r
    elif label == 2:  # plane patch
        u[:, 2] = 0.05 * rng.standard_normal(NUM_POINTS)
    else:  # box surface
        face = rng.integers(0, 3, NUM_POINTS)
        u[np.arange(NUM_POINTS), face] = np.sign(u[np.arange(NUM_POINTS), face])
    theta = rng.uniform(0, 2 * math.pi)
    c, s = math.cos(theta), math.sin(theta)
    rot = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
    jitter = np.clip(0.01 * rng.standard_normal(u.shape), -0.05, 0.05)
    return (u @ rot.T + jitter).astype(np.float32)


class CloudDataset(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, NUM_CLASSES, n)
        self.x = np.stack([make_cloud(rng, int(c)) for c in self.y])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class SharedMLP(nn.Sequential):
    def __init__(self, dims):
        layers = []
        for cin, cout in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU()]
        super().__init__(*layers)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = SharedMLP([3, 16, 32])
        self.glob = SharedMLP([32, 64])
        self.head = nn.Sequential(
            nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, NUM_CLASSES)
        )

    def forward(self, pts):
        h = self.local(pts.transpose(1, 2))
        h = self.glob(h).amax(dim=2)
        return self.head(h)


class BNMomentumScheduler:
    def __init__(self, model, init=0.5, decay=0.7, floor=0.01):
        self.model = model
        self.fn = lambda epoch: max(init * decay**epoch, floor)
        self.epoch = -1
        self.step()

    def step(self):
        self.epoch += 1
        value = self.fn(self.epoch)
        for m in self.model.modules():
            if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
                m.momentum = value


def main():
    torch.manual_seed(7)
    device = torch_xla.device()

    train = torch.utils.data.DataLoader(
        CloudDataset(BATCH * STEPS_PER_EPOCH, seed=1), batch_size=BATCH, shuffle=True, drop_last=True
    )
    model = PointNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    lr_sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.9)
    bn_sched = BNMomentumScheduler(model)

    for epoch in range(EPOCHS):
        model.train()
        correct = torch.zeros((), device=device)
        total_loss = torch.zeros((), device=device)
        for pts, label in train:
            pts, label = pts.to(device), label.to(device)
            opt.zero_grad()
            logits = model(pts)
            loss = F.cross_entropy(logits, label, label_smoothing=0.1)
            loss.backward()
            opt.step()
            total_loss += loss.detach()
            correct += (logits.argmax(1) == label).sum()
            torch_xla.sync()

        lr_sched.step()
        bn_sched.step()
        print(
            f"epoch {epoch:02d} loss {total_loss.item() / STEPS_PER_EPOCH:.4f} "
            f"acc {correct.item() / (STEPS_PER_EPOCH * BATCH):.3f} lr {lr_sched.get_last_lr()[0]:.2e}"
        )


if __name__ == "__main__":
    main()
