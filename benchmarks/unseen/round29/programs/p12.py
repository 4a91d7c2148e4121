import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

CFG = dict(
    num_points=32,
    num_classes=4,
    train_size=80,
    batch_size=16,
    epochs=10,
    lr=1e-3,
    lr_decay=0.7,
    decay_every=5,
    bn_momentum=0.5,
    bn_momentum_decay=0.85,
    bn_momentum_floor=0.01,
)


class Shapes(Dataset):
    """Noisy surface samples of a sphere, a box, a cylinder and a torus."""

    def __init__(self, n, num_points, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for i in range(n):
            cls = i % 4
            u = rng.uniform(0, 2 * np.pi, num_points)
            v = rng.uniform(-1, 1, num_points)
            if cls == 0:
                s = np.sqrt(1 - v ** 2)
                p = np.stack([s * np.cos(u), s * np.sin(u), v], 1)
            elif cls == 1:
                p = rng.uniform(-1, 1, (num_points, 3))
                ax = rng.integers(0, 3, num_points)
                p[np.arange(num_points), ax] = np.sign(p[np.arange(num_points), ax])
            elif cls == 2:
                p = np.stack([np.cos(u), np.sin(u), v], 1)
            else:
                w = v * np.pi
                p = np.stack([(1 + 0.3 * np.cos(w)) * np.cos(u), (1 + 0.3 * np.cos(w)) * np.sin(u), 0.3 * np.sin(w)], 1)
            p += rng.normal(0, 0.02, p.shape)
            self.items.append((p.astype(np.float32), cls))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        p, c = self.items[i]
        theta = np.random.uniform(0, 2 * np.pi)
        rot = np.array([[np.cos(theta), -np.sin(theta), 0], [np.sin(theta), np.cos(theta), 0], [0, 0, 1]], np.float32)
        return torch.from_numpy(p @ rot), c


class SharedMLP(nn.Sequential):
    def __init__(self, *dims):
        layers = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
        super().__init__(*layers)


class PointNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.local = SharedMLP(3, 16)
        self.glob = SharedMLP(16, 48)
        self.head = nn.Sequential(nn.Linear(48, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, num_classes))

    def forward(self, xyz):
        x = self.glob(self.local(xyz.transpose(1, 2)))
        return self.head(x.amax(dim=2))


class BNMomentumScheduler:
    def __init__(self, model, fn):
        self.bns = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
        self.fn = fn
        self.step(0)

    def step(self, epoch):
        for m in self.bns:
            m.momentum = self.fn(epoch)


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    model = PointNet(CFG["num_classes"]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, CFG["decay_every"], CFG["lr_decay"])
    bn_sched = BNMomentumScheduler(
        model,
        lambda e: max(CFG["bn_momentum"] * CFG["bn_momentum_decay"] ** e, CFG["bn_momentum_floor"]),
    )
    data = Shapes(CFG["train_size"], CFG["num_points"], seed=1)
    loader = MpDeviceLoader(DataLoader(data, CFG["batch_size"], shuffle=True, drop_last=True), device)

    for epoch in range(CFG["epochs"]):
        bn_sched.step(epoch)
        model.train()
        correct = torch.zeros((), device=device)
        for xyz, label in loader:
            optimizer.zero_grad()
            logits = model(xyz)
            loss = F.cross_entropy(logits, label, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == label).sum()
        scheduler.step()
        print(f"epoch {epoch:2d}  loss {loss.item():.3f}  acc {correct.item() / len(data):.3f}")


if __name__ == "__main__":
    main()
