"""Semi-supervised tissue classification on H&E patches (student / averaged teacher)."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def get_args(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--classes", type=int, default=9)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--labeled", type=int, default=8)
    p.add_argument("--unlabeled", type=int, default=24)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--steps-per-epoch", type=int, default=3)
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--weight-decay", type=float, default=2e-4)
    p.add_argument("--ema-decay", type=float, default=0.97)
    p.add_argument("--consistency", type=float, default=1.0)
    p.add_argument("--consistency-rampup", type=int, default=3)
    p.add_argument("--logit-distance-cost", type=float, default=0.01)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args(argv)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = None
        if stride != 1 or cin != cout:
            self.short = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.leaky_relu(self.bn1(self.conv1(x)), 0.1)
        y = self.bn2(self.conv2(y))
        s = x if self.short is None else self.short(x)
        return F.leaky_relu(y + s, 0.1)


class PatchNet(nn.Module):
    """Two heads: one for the class loss, one compared with the teacher."""

    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.block1 = ConvBlock(width, width)
        self.block2 = ConvBlock(width, 2 * width, stride=2)
        self.fc_class = nn.Linear(2 * width, classes)
        self.fc_cons = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.stem(x)
        x = self.block2(self.block1(x))
        x = x.mean(dim=(2, 3))
        return self.fc_class(x), self.fc_cons(x)


class Patches:
    """Stain-jittered pairs of views; the first `labeled` entries carry labels."""

    def __init__(self, args):
        self.args = args
        self.rng = np.random.default_rng(args.seed)

    def batch(self):
        a = self.args
        n = a.labeled + a.unlabeled
        base = self.rng.random((n, 3, 24, 24), dtype=np.float32)
        views = []
        for _ in range(2):
            gain = self.rng.uniform(0.9, 1.1, (n, 3, 1, 1)).astype(np.float32)
            bias = self.rng.uniform(-0.05, 0.05, (n, 3, 1, 1)).astype(np.float32)
            views.append(torch.from_numpy(base * gain + bias))
        target = self.rng.integers(0, a.classes, n)
        target[a.labeled:] = -1
        return views[0], views[1], torch.from_numpy(target)


def sigmoid_rampup(current, rampup_length):
    if rampup_length == 0:
        return 1.0
    current = np.clip(current, 0.0, rampup_length)
    phase = 1.0 - current / rampup_length
    return float(np.exp(-5.0 * phase * phase))


def consistency_weight(args, epoch):
    return args.consistency * sigmoid_rampup(epoch, args.consistency_rampup)


def cosine_lr(args, step):
    total = args.epochs * args.steps_per_epoch
    return args.lr * 0.5 * (1.0 + math.cos(math.pi * step / (total + 5)))


@torch.no_grad()
def update_teacher(student, teacher, alpha):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(alpha).add_(s, alpha=1 - alpha)


def train_step(args, student, teacher, optimizer, batch, epoch, step):
    x_s, x_t, target = batch
    for group in optimizer.param_groups:
        group["lr"] = cosine_lr(args, step)

    with torch.no_grad():
        t_class, _ = teacher(x_t)
    s_class, s_cons = student(x_s)

    n = target.shape[0]
    class_loss = F.cross_entropy(s_class, target, ignore_index=-1, reduction="sum") / n
    res_loss = args.logit_distance_cost * F.mse_loss(s_class, s_cons)
    cons = F.mse_loss(s_cons.softmax(1), t_class.softmax(1), reduction="sum") / (n * args.classes)
    w = consistency_weight(args, epoch)
    loss = class_loss + res_loss + w * cons

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_teacher(student, teacher, args.ema_decay)

    correct = (s_class.detach().argmax(1) == target).sum()
    return {"loss": loss.detach(), "class": class_loss.detach(), "cons": cons.detach(), "correct": correct}


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    device = xm.xla_device()
    student = PatchNet(args.width, args.classes).to(device)
    teacher = PatchNet(args.width, args.classes).to(device)
    teacher.load_state_dict(student.state_dict())
    for p in teacher.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=args.momentum,
                                weight_decay=args.weight_decay, nesterov=True, foreach=False)
    data = Patches(args)
    torch_xla.sync()

    step = 0
    for epoch in range(args.epochs):
        student.train()
        teacher.train()
        for _ in range(args.steps_per_epoch):
            batch = [t.to(device) for t in data.batch()]
            logs = train_step(args, student, teacher, optimizer, batch, epoch, step)
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch} loss {logs['loss'].item():.4f} cons {logs['cons'].item():.5f}")


if __name__ == "__main__":
    main()
