"""Distillation into a small CNN: warm-up and cosine, EMA of the student, validation, checkpoints and early stopping."""
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


def net(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 5))


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(5, (n,), generator=g)
    base = torch.randn(5, 1, 12, 12, generator=torch.Generator().manual_seed(77))
    return TensorDataset(base[y] + torch.randn(n, 1, 12, 12, generator=g), y)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: torch.zeros_like(v) + v for k, v in model.state_dict().items() if v.is_floating_point()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            if k in self.shadow:
                self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, -1.0, 0

    def __call__(self, score):
        self.bad = 0 if score > self.best else self.bad + 1
        self.best = max(self.best, score)
        return self.bad >= self.patience


def lr_at(step, warm, total, peak=2e-3, floor=1e-5):
    if step < warm:
        return peak * (step + 1) / (warm + 1)
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * (step - warm) / (total + 1 - warm)))


def show(epoch, loss):
    print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


def validate(model, loader, device):
    model.eval()
    right, seen = torch.zeros(1).to(device), 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum()
            seen += len(x)
    torch_xla.sync()
    return right.item() / seen


def main(epochs=6, temp=3.0):
    torch.manual_seed(0)
    device = torch_xla.device()
    teacher, student = net(16).to(device).eval(), net(6).to(device)
    opt = torch.optim.AdamW(student.parameters(), lr=1e-3)
    ema, stop = Ema(student, 0.95), EarlyStopping(3)
    g = torch.Generator().manual_seed(0)
    train = pl.MpDeviceLoader(DataLoader(data(96, 0), 16, shuffle=True, drop_last=True, generator=g), device)
    val = pl.MpDeviceLoader(DataLoader(data(32, 1), 16, drop_last=True), device)
    folder, step = tempfile.mkdtemp(), 0
    torch_xla.sync()
    for epoch in range(epochs):
        student.train()
        for x, y in train:
            for group in opt.param_groups:
                group["lr"] = lr_at(step, 5, epochs * 6)
            with torch.no_grad():
                soft = F.softmax(teacher(x) / temp, 1)
            out = student(x)
            loss = 0.3 * F.cross_entropy(out, y) + 0.7 * temp ** 2 * F.kl_div(F.log_softmax(out / temp, 1), soft, reduction="batchmean")
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(student)
            step += 1
            if step % 6 == 0:
                xm.add_step_closure(show, args=(epoch, loss.detach()))
        acc = validate(student, val, device)
        xm.save(student.state_dict(), os.path.join(folder, "last.pt"))
        if stop(acc):
            print("stopped at epoch", epoch)
            break
    print("best", round(stop.best, 3))


if __name__ == "__main__":
    main()
