"""Distils a frozen teacher into a student: the head is fitted first, then the whole student."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("distil")


@dataclass
class Config:
    seed: int = 23
    features: int = 16
    classes: int = 5
    teacher_width: int = 48
    student_width: int = 16
    batch_size: int = 16
    head_steps: int = 8
    full_steps: int = 24
    lr: float = 3e-2
    temperature: float = 3.0
    mix: float = 0.7


class MLP(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


@dataclass
class Phase:
    name: str
    steps: int
    train_backbone: bool
    lr_scale: float


def phases(cfg):
    return [Phase("head", cfg.head_steps, False, 0.9), Phase("full", cfg.full_steps, True, 0.35)]


def make_data(cfg, steps):
    g = torch.Generator().manual_seed(cfg.seed)
    centres = torch.randn(cfg.classes, cfg.features, generator=g)
    y = torch.randint(0, cfg.classes, (steps * cfg.batch_size,), generator=g)
    x = centres[y] + 0.6 * torch.randn(len(y), cfg.features, generator=g)
    return TensorDataset(x, y)


def distil_loss(student, teacher, labels, cfg):
    t = cfg.temperature
    soft = F.kl_div(F.log_softmax(student / t, -1), F.softmax(teacher / t, -1), reduction="batchmean") * t * t
    return cfg.mix * soft + (1 - cfg.mix) * F.cross_entropy(student, labels)


class Distiller:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.teacher = MLP(cfg.features, cfg.teacher_width, cfg.classes).to(device).eval()
        self.teacher.requires_grad_(False)
        self.student = MLP(cfg.features, cfg.student_width, cfg.classes).to(device)

    def optimizer(self, phase):
        self.student.backbone.requires_grad_(phase.train_backbone)
        params = [p for p in self.student.parameters() if p.requires_grad]
        return torch.optim.SGD(params, lr=self.cfg.lr * phase.lr_scale, weight_decay=1e-4)

    def run(self, phase):
        opt = self.optimizer(phase)
        data = make_data(self.cfg, phase.steps)
        losses = []
        for x, y in DataLoader(data, batch_size=self.cfg.batch_size, shuffle=True, drop_last=True):
            x, y = x.to(self.device), y.to(self.device)
            with torch.no_grad():
                target = self.teacher(x)
            loss = distil_loss(self.student(x), target, y, self.cfg)
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
            losses.append(loss.detach())
        return losses


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    distiller = Distiller(cfg, torch_xla.device())
    for phase in phases(cfg):
        losses = distiller.run(phase)
        log.info("phase %s: %d steps, loss %.3f -> %.3f", phase.name, len(losses),
                 losses[0].item(), losses[-1].item())


if __name__ == "__main__":
    main()
