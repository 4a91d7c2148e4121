"""PointNet classification of synthetic solids."""
import argparse

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--points", type=int, default=48)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--steps_per_epoch", type=int, default=5)
    p.add_argument("--bn_init", type=float, default=0.5)
    p.add_argument("--bn_decay", type=float, default=0.5)
    p.add_argument("--bn_decay_epochs", type=int, default=2)
    return p.parse_args()


class SharedMLP(nn.Sequential):
    def __init__(self, sizes):
        mods = []
        for i, o in zip(sizes[:-1], sizes[1:]):
            mods += [nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o), nn.ReLU()]
        super().__init__(*mods)


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.mlp = SharedMLP([k, 16, 32])
        self.fc = nn.Linear(32, k * k)
        nn.init.zeros_(self.fc.weight)
        with torch.no_grad():
            self.fc.bias.copy_(torch.eye(k).flatten())

    def forward(self, x):
        m = self.fc(self.mlp(x).amax(-1))
        return m.view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.tnet = TNet(3)
        self.local = SharedMLP([3, 16, 16])
        self.deep = SharedMLP([16, 32, 64])
        self.fc1 = nn.Linear(64, 32)
        self.bn1 = nn.BatchNorm1d(32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, pts):
        t = self.tnet(pts)
        x = torch.bmm(t, pts)
        x = self.deep(self.local(x)).amax(-1)
        return self.fc2(F.relu(self.bn1(self.fc1(x)))), t


def make_batch(b, n):
    y = torch.randint(0, 3, (b,))
    d = torch.randn(b, 3, n)
    sphere = d / d.norm(dim=1, keepdim=True)
    cube = d / d.abs().amax(1, keepdim=True)
    disk = sphere * torch.tensor([1.0, 1.0, 0.1])[None, :, None]
    pts = torch.stack([sphere, cube, disk], 1)[torch.arange(b), y]
    return pts + 0.02 * torch.randn_like(pts), y


def set_bn_momentum(model, momentum):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.momentum = momentum


def main():
    args = parse()
    torch.manual_seed(1)
    dev = xm.xla_device()
    net = PointNet(3).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    lr_sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.7)
    eye = torch.eye(3, device=dev)
    torch_xla.sync()
    for epoch in range(args.epochs):
        momentum = max(args.bn_init * args.bn_decay ** (epoch // args.bn_decay_epochs), 0.01)
        set_bn_momentum(net, momentum)
        net.train()
        for _ in range(args.steps_per_epoch):
            pts, y = make_batch(args.batch, args.points)
            pts, y = pts.to(dev), y.to(dev)
            opt.zero_grad()
            logits, t = net(pts)
            ortho = (torch.bmm(t, t.transpose(1, 2)) - eye).square().sum((1, 2)).mean()
            loss = F.nll_loss(F.log_softmax(logits, -1), y) + 1e-3 * ortho
            loss.backward()
            xm.optimizer_step(opt)
            xm.mark_step()
        lr_sched.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


main()
