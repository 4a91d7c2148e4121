import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "num_points": 64,
    "num_classes": 4,
    "batch_size": 16,
    "epochs": 6,
    "optimizer": {"lr": 2e-3, "weight_decay": 1e-4},
    "lr_decay": {"gamma": 0.8, "floor": 1e-5},
    "bn_decay": {"init": 0.5, "gamma": 0.7, "floor": 0.01},
}


def primitive_shapes(n, num_points, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (n,), generator=g)
    u = torch.rand(n, num_points, 2, generator=g)
    th, z = 2 * math.pi * u[..., 0], 2 * u[..., 1] - 1
    r = torch.sqrt((1 - z * z).clamp_min(0))
    sphere = torch.stack([r * th.cos(), r * th.sin(), z], -1)
    cyl = torch.stack([th.cos(), th.sin(), z], -1)
    cone = torch.stack([(1 - z) / 2 * th.cos(), (1 - z) / 2 * th.sin(), z], -1)
    plane = torch.stack([2 * u[..., 0] - 1, z, 0 * z], -1)
    bank = torch.stack([sphere, cyl, cone, plane], 1)
    pts = bank[torch.arange(n), labels] + 0.02 * torch.randn(n, num_points, 3, generator=g)
    return pts.transpose(1, 2).contiguous(), labels


def shared_mlp(*widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNetCls(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.local = shared_mlp(3, 16)
        self.glob = shared_mlp(16, 64)
        self.head = nn.Sequential(
            nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(32, num_classes))

    def forward(self, pts):
        feat = self.glob(self.local(pts)).amax(dim=2)
        return self.head(feat)


class BNDecay:
    def __init__(self, model, init, gamma, floor):
        self.mods = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
        self.rule = lambda epoch: max(init * gamma ** epoch, floor)

    def step(self, epoch):
        for m in self.mods:
            m.momentum = self.rule(epoch)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = PointNetCls(cfg["num_classes"]).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), **cfg["optimizer"])
        d = cfg["lr_decay"]
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda e: max(d["gamma"] ** e, d["floor"] / cfg["optimizer"]["lr"]))
        self.bn = BNDecay(self.model, **cfg["bn_decay"])
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        data = TensorDataset(*primitive_shapes(64, cfg["num_points"]))
        self.loader = DataLoader(data, cfg["batch_size"], shuffle=True, drop_last=True)

    def run_batch(self, pts, labels):
        pts, labels = pts.to(self.device), labels.to(self.device)
        out = self.model(pts)
        loss = self.criterion(out, labels)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        hits = (out.argmax(1) == labels).float().mean()
        xm.mark_step()
        return loss, hits

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            self.bn.step(epoch)
            self.model.train()
            seen = [self.run_batch(*b) for b in self.loader]
            loss = sum(l.item() for l, _ in seen) / len(seen)
            acc = sum(h.item() for _, h in seen) / len(seen)
            self.sched.step()
            print(f"[{epoch:02d}] loss={loss:.4f} acc={acc:.3f} lr={self.sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    torch.manual_seed(7)
    Trainer(CONFIG).fit()
