"""Roadside LiDAR segmentation, PointNet style, focal loss."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class SharedMLP(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout, bias=False)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        b, n, _ = x.shape
        y = self.lin(x).reshape(b * n, -1)
        return F.relu(self.bn(y)).reshape(b, n, -1)


class PointSeg(nn.Module):
    def __init__(self, in_ch=4, width=24, classes=7):
        super().__init__()
        self.local1 = SharedMLP(in_ch, width)
        self.local2 = SharedMLP(width, width)
        self.glob = SharedMLP(width, 2 * width)
        self.fuse = SharedMLP(3 * width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, pts):
        f1 = self.local1(pts)
        f2 = self.local2(f1)
        g = self.glob(f2).amax(dim=1, keepdim=True)
        g = g.expand(-1, pts.shape[1], -1)
        return self.head(self.fuse(torch.cat([f2, g], dim=-1)))


class FocalLoss(nn.Module):
    def __init__(self, class_weight, gamma_start=1.0, gamma_end=2.0, ramp=8):
        super().__init__()
        self.register_buffer("class_weight", class_weight)
        self.gamma_start, self.gamma_end, self.ramp = gamma_start, gamma_end, ramp
        self.gamma = gamma_start

    def set_step(self, step):
        t = min(step / self.ramp, 1.0)
        self.gamma = self.gamma_start + t * (self.gamma_end - self.gamma_start)

    def forward(self, logits, target):
        logp = F.log_softmax(logits, dim=-1)
        logpt = logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        pt = logpt.exp()
        w = self.class_weight[target]
        return (-w * (1.0 - pt) ** self.gamma * logpt).sum() / w.sum()


class Sweeps:
    """Random crops of a sweep: x, y, z, intensity."""

    def __init__(self, batch, points, seed):
        self.rng = np.random.default_rng(seed)
        self.batch, self.points = batch, points

    def next(self):
        p = self.rng.normal(size=(self.batch, self.points, 4)).astype(np.float32)
        t = (np.abs(p[..., 2]) * 3).astype(np.int64).clip(0, 6)
        return torch.from_numpy(p), torch.from_numpy(t)


def evaluate_batch(logits, target, correct, seen):
    hit = (logits.argmax(-1) == target).float().sum()
    return correct + hit, seen + target.numel()


def train(args):
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    model = PointSeg().to(device)
    freq = torch.tensor([0.31, 0.24, 0.18, 0.12, 0.08, 0.04, 0.03])
    criterion = FocalLoss(1.0 / torch.log(1.02 + freq), ramp=args.ramp).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9,
                          weight_decay=5e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=400)
    data = Sweeps(args.batch, args.points, args.seed)
    correct = torch.zeros((), device=device)
    seen = 0
    torch_xla.sync()

    for step in range(args.steps):
        pts, target = data.next()
        pts, target = pts.to(device), target.to(device)
        criterion.set_step(step)
        opt.zero_grad()
        logits = model(pts)
        loss = criterion(logits, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        correct, seen = evaluate_batch(logits.detach(), target, correct, seen)
        torch_xla.sync()
        if step % 5 == 4:
            print(step, "loss %.4f acc %.3f" % (loss.item(), correct.item() / seen))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--points", type=int, default=64)
    ap.add_argument("--ramp", type=int, default=8)
    ap.add_argument("--steps", type=int, default=11)
    ap.add_argument("--seed", type=int, default=3)
    train(ap.parse_args())
