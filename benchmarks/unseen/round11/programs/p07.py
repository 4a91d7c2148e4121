"""PointNet-like classification of synthetic point clouds."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class SharedMLP(nn.Sequential):
    def __init__(self, dims):
        layers = []
        for cin, cout in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class TNet(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.mlp = SharedMLP([k, 16, 32])
        self.fc = nn.Linear(32, k * k)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        m = self.fc(self.mlp(x).amax(-1)).view(-1, self.k, self.k)
        return m + torch.eye(self.k, device=x.device)


class PointNetCls(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.tnet = TNet(3)
        self.feat = SharedMLP([3, 16, 32, 64])
        self.fc1 = nn.Linear(64, 32)
        self.bn1 = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.3)
        self.fc2 = nn.Linear(32, num_classes)

    def forward(self, pts):
        x = pts.transpose(1, 2)
        x = torch.bmm(self.tnet(x), x)
        x = self.feat(x).amax(-1)
        return self.fc2(self.drop(F.relu(self.bn1(self.fc1(x)))))


def set_bn_momentum_default(bn_momentum):
    def fn(m):
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.momentum = bn_momentum
    return fn


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda, last_step=-1, setter=set_bn_momentum_default):
        self.model = model
        self.lmbd = bn_lambda
        self.setter = setter
        self.last_step = last_step
        self.step(last_step + 1)

    def step(self, step=None):
        if step is None:
            step = self.last_step + 1
        self.last_step = step
        self.model.apply(self.setter(self.lmbd(step)))


def sample_shapes(n, points=48):
    labels = torch.randint(0, 3, (n,))
    u = torch.randn(n, points, 3)
    sphere = u / u.norm(dim=-1, keepdim=True)
    cube = u / u.abs().amax(dim=-1, keepdim=True)
    disk = sphere * torch.tensor([1.0, 1.0, 0.1])
    pts = torch.stack([sphere, cube, disk], 1)[torch.arange(n), labels]
    return pts + 0.02 * torch.randn_like(pts), labels


def rotate_z(pts):
    a = torch.rand(len(pts)) * 6.2832
    c, s, z, o = a.cos(), a.sin(), torch.zeros_like(a), torch.ones_like(a)
    return pts @ torch.stack([c, -s, z, s, c, z, z, z, o], -1).view(-1, 3, 3)


def train(num_steps=15, batch_size=16, lr=2e-3, lr_decay=0.7, bn_momentum=0.5, bn_decay=0.5, decay_step=160,
          bnm_clip=1e-2, lr_clip=1e-5):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = PointNetCls().to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    lr_sched = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda it: max(lr_decay ** (it * batch_size / decay_step), lr_clip / lr))
    bnm_sched = BNMomentumScheduler(
        model, lambda it: max(bn_momentum * bn_decay ** (it * batch_size / decay_step), bnm_clip))

    running = 0.0
    for it in range(num_steps):
        pts, labels = sample_shapes(batch_size)
        pts, labels = rotate_z(pts).to(device), labels.to(device)
        optimizer.zero_grad()
        logits = model(pts)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        xm.optimizer_step(optimizer)
        lr_sched.step()
        bnm_sched.step()
        xm.mark_step()
        if it % 5 == 4:
            running = loss.item() if it < 5 else 0.5 * running + 0.5 * loss.item()
            print(f"it {it + 1} loss {running:.4f} lr {lr_sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    train()
