import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


@dataclass
class TrainConfig:
    num_classes: int = 5
    image_size: int = 16
    width: int = 8
    epochs: int = 4
    steps_per_epoch: int = 2
    batch_size: int = 8
    lr: float = 0.05
    mixup_alpha: float = 0.4
    close_mixup_epoch: int = 2
    ema_decay: float = 0.98
    ema_start_epoch: int = 2


class ToyShapes(Dataset):
    def __init__(self, cfg, seed=0):
        rng = np.random.default_rng(seed)
        n = cfg.steps_per_epoch * cfg.batch_size
        self.y = rng.integers(0, cfg.num_classes, n)
        self.x = rng.normal(size=(n, 3, cfg.image_size, cfg.image_size)).astype("float32")
        for i, c in enumerate(self.y):
            self.x[i, c % 3, c : c + 6, c : c + 6] += 2.0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class Block(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.gn1 = nn.GroupNorm(2, c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.gn1(self.conv1(x)) + self.skip(x))


class SmallNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.body = nn.Sequential(Block(3, w, 2), Block(w, 2 * w, 2))
        self.head = nn.Linear(2 * w, cfg.num_classes)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


class ModelEma:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.lerp_(p.detach(), 1.0 - self.decay)


def mixup(x, target, lam):
    return x * lam + x.flip(0) * (1 - lam), target * lam + target.flip(0) * (1 - lam)


def soft_ce(logits, target):
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.rng = np.random.default_rng(11)
        self.model = SmallNet(cfg).to(self.device)
        self.ema = ModelEma(self.model, cfg.ema_decay)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
        self.running = torch.zeros((), device=self.device)
        loader = DataLoader(ToyShapes(cfg), batch_size=cfg.batch_size, drop_last=True)
        self.loader = pl.MpDeviceLoader(loader, self.device)

    def train_epoch(self, epoch):
        cfg = self.cfg
        for x, y in self.loader:
            target = F.one_hot(y, cfg.num_classes).float()
            if epoch < cfg.close_mixup_epoch:
                lam = self.rng.beta(cfg.mixup_alpha, cfg.mixup_alpha)
                x, target = mixup(x, target, lam)
            loss = soft_ce(self.model(x), target)
            self.opt.zero_grad()
            loss.backward()
            xm.optimizer_step(self.opt)
            if epoch >= cfg.ema_start_epoch:
                self.ema.update(self.model)
            self.running = self.running * 0.9 + loss.detach() * 0.1

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.train_epoch(epoch)
            xm.add_step_closure(lambda r, e: print(f"epoch {e} running loss {r.item():.4f}"), args=(self.running, epoch))
            torch_xla.sync()


if __name__ == "__main__":
    torch.manual_seed(3)
    Trainer(TrainConfig()).fit()
