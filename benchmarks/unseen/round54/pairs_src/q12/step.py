"""Mean-teacher segmentation with few labelled slices."""
import copy
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    classes: int = 3
    size: int = 16
    labelled: int = 2
    unlabelled: int = 2
    epochs: int = 4
    steps_per_epoch: int = 3
    rampup_epochs: int = 2
    eval_every: int = 2
    consistency: float = 1.0
    ema: float = 0.99
    lr: float = 0.02


def conv_bn(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.enc1 = conv_bn(1, width)
        self.enc2 = conv_bn(width, 2 * width)
        self.mid = conv_bn(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = conv_bn(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        s1 = self.enc1(x)
        x = self.enc2(F.max_pool2d(s1, 2))
        x = self.mid(x)
        x = self.up(x)
        x = self.dec(torch.cat([s1, x], dim=1))
        return self.head(x)


def dice_loss(logits, target, classes):
    prob = logits.softmax(dim=1)
    onehot = F.one_hot(target, classes).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * onehot).sum(dim=(2, 3))
    union = prob.sum(dim=(2, 3)) + onehot.sum(dim=(2, 3))
    return 1.0 - ((2.0 * inter + 1e-5) / (union + 1e-5)).mean()


def consistency_weight(cfg, step):
    total = cfg.rampup_epochs * cfg.steps_per_epoch
    return cfg.consistency * min(1.0, (step + 0.5) / total)


@torch.no_grad()
def update_teacher(student, teacher, ema):
    for ps, pt in zip(student.parameters(), teacher.parameters()):
        pt.mul_(ema).add_(ps, alpha=1 - ema)


@torch.no_grad()
def evaluate(model, cfg, device):
    model.eval()
    inter, union = 0.0, 0.0
    for _ in range(2):
        x = torch.rand(4, 1, cfg.size, cfg.size).to(device)
        y = torch.randint(cfg.classes, (4, cfg.size, cfg.size)).to(device)
        hit = (model(x).argmax(1) == y).float().sum()
        torch_xla.sync()
        inter += hit.item()
        union += y.numel()
    return inter / union


def main():
    cfg = Config()
    torch.manual_seed(0)
    device = torch_xla.device()
    student = UNet(cfg.classes).to(device)
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad_(False)
    opt = torch.optim.SGD(student.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()

    step = 0
    for epoch in range(cfg.epochs):
        student.train()
        for _ in range(cfg.steps_per_epoch):
            x = torch.rand(cfg.labelled + cfg.unlabelled, 1, cfg.size, cfg.size)
            y = torch.randint(cfg.classes, (cfg.labelled, cfg.size, cfg.size)).to(device)
            noisy = (x + 0.05 * torch.randn_like(x)).to(device)
            x = x.to(device)

            out = student(x)
            with torch.no_grad():
                soft = teacher(noisy).softmax(dim=1)
            sup = F.cross_entropy(out[:cfg.labelled], y) + dice_loss(out[:cfg.labelled], y, cfg.classes)
            cons = ((out.softmax(dim=1) - soft) ** 2)[cfg.labelled:].mean()
            loss = sup + consistency_weight(cfg, step) * cons

            opt.zero_grad()
            loss.backward()
            opt.step()
            update_teacher(student, teacher, cfg.ema)
            torch_xla.sync()
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
        if (epoch + 1) % cfg.eval_every == 0:
            print(f"epoch {epoch} acc {evaluate(teacher, cfg, device):.3f}", flush=True)


if __name__ == "__main__":
    main()
