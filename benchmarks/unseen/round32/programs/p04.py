"""PointNet-like classifier on synthetic solids, with the batch-norm schedule of the detection papers."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_POINTS = 48
CLASSES = ("sphere", "box", "cylinder")


def sample_solid(rng, kind, n):
    if kind == "sphere":
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == "box":
        p = rng.uniform(-1, 1, (n, 3))
        axis = rng.integers(0, 3, n)
        p[np.arange(n), axis] = rng.choice([-1.0, 1.0], n)
    else:
        a = rng.uniform(0, 2 * math.pi, n)
        p = np.stack([np.cos(a), np.sin(a), rng.uniform(-1, 1, n)], axis=1)
    return p


def make_dataset(size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), size)
    clouds = []
    for y in labels:
        p = sample_solid(rng, CLASSES[y], NUM_POINTS) * rng.uniform(0.6, 1.2, (1, 3))
        clouds.append(p + rng.normal(0, 0.03, p.shape))
    return torch.tensor(np.stack(clouds), dtype=torch.float32), torch.from_numpy(labels)


def rotate_z(points, rng):
    a = rng.uniform(0, 2 * math.pi)
    m = torch.tensor([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1.0]])
    return points @ m


class SharedMLP(nn.Sequential):
    def __init__(self, dims):
        layers = []
        for cin, cout in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU()]
        super().__init__(*layers)


class PointNetCls(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = SharedMLP([3, 16, 32])
        self.fc1 = nn.Linear(32, 24)
        self.bn = nn.BatchNorm1d(24)
        self.fc2 = nn.Linear(24, len(CLASSES))

    def forward(self, pts):
        feat = self.local(pts.transpose(1, 2)).amax(dim=2)
        return self.fc2(F.relu(self.bn(self.fc1(feat))))


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda):
        self.model = model
        self.lmbd = bn_lambda
        self.last_epoch = -1
        self.step()

    def step(self):
        self.last_epoch += 1
        value = self.lmbd(self.last_epoch)
        for m in self.model.modules():
            if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
                m.momentum = value


@torch.no_grad()
def evaluate(model, pts, labels, batch):
    model.eval()
    hits = torch.zeros((), device=pts.device)
    for i in range(0, len(labels), batch):
        x, y = pts.narrow(0, 0, batch), labels.narrow(0, 0, batch)
        hits += (model(x).argmax(dim=1) == y).float().sum()
        pts, labels = pts.roll(-batch, 0), labels.roll(-batch, 0)
        torch_xla.sync()
    model.train()
    return hits.item() / len(labels)


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    train_x, train_y = make_dataset(72, 0)
    val_x, val_y = make_dataset(24, 1)
    val_x, val_y = val_x.to(device), val_y.to(device)

    batch, epochs = 12, 10
    model = PointNetCls().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    lr_sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs, eta_min=1e-4)
    bn_sched = BNMomentumScheduler(model, lambda e: max(0.5 * 0.75 ** e, 0.001))
    torch_xla.sync()

    for epoch in range(epochs):
        order = torch.from_numpy(rng.permutation(len(train_y)))
        total = torch.zeros((), device=device)
        for chunk in order.split(batch):
            x = rotate_z(train_x[chunk], rng).to(device)
            y = train_y[chunk].to(device)
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
            torch_xla.sync()
        lr_sched.step()
        bn_sched.step()
        if epoch % 3 == 2:
            acc = evaluate(model, val_x, val_y, batch)
            print(f"epoch {epoch} loss {total.item() / (len(train_y) // batch):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
