"""Single-shot beat detector for one-lead ECG strips.

Each strip is cut into CELLS windows; the network says for every window whether
an R peak lies in it, where in the window it lies, and how wide the complex is.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    strip_len: int = 256
    cells: int = 32
    width: int = 16
    batch: int = 6
    strips: int = 72
    epochs: int = 3
    lr: float = 3e-3
    box_weight: float = 2.0
    neg_weight: float = 0.5
    seed: int = 7


class SyntheticStrips(Dataset):
    """ECG-like strips: a baseline wander plus Gaussian bumps at the beats."""

    def __init__(self, cfg):
        g = torch.Generator().manual_seed(cfg.seed)
        self.items = []
        t = torch.arange(cfg.strip_len, dtype=torch.float32)
        cell = cfg.strip_len // cfg.cells
        for _ in range(cfg.strips):
            n = int(torch.randint(2, 5, (1,), generator=g))
            pos = torch.randperm(cfg.cells, generator=g)[:n]
            sig = 0.1 * torch.sin(t / 40 + torch.rand(1, generator=g) * 6)
            sig = sig + 0.05 * torch.randn(cfg.strip_len, generator=g)
            label = torch.zeros(cfg.cells)
            box = torch.zeros(cfg.cells, 2)
            for p in pos.tolist():
                off = float(torch.rand(1, generator=g))
                wid = 1.0 + 2.0 * float(torch.rand(1, generator=g))
                centre = (p + off) * cell
                sig = sig + torch.exp(-((t - centre) / wid) ** 2)
                label[p] = 1.0
                box[p, 0] = off
                box[p, 1] = math.log(wid)
            self.items.append((sig.unsqueeze(0), label, box))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class BeatNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.stem = nn.Conv1d(1, w, 7, stride=2, padding=3)
        self.down = nn.ModuleList([nn.Conv1d(w, w, 5, stride=2, padding=2) for _ in range(2)])
        self.norms = nn.ModuleList([nn.GroupNorm(4, w) for _ in range(2)])
        self.obj = nn.Conv1d(w, 1, 1)
        self.reg = nn.Conv1d(w, 2, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for conv, norm in zip(self.down, self.norms):
            x = F.relu(norm(conv(x)))
        return self.obj(x).squeeze(1), self.reg(x).transpose(1, 2)


class DetectionLoss(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def forward(self, logits, reg, label, box):
        hit = label > 0.5
        obj = F.binary_cross_entropy_with_logits(logits, label, reduction="none")
        weight = torch.where(hit, 1.0, self.cfg.neg_weight)
        obj_loss = (obj * weight).mean()
        box_loss = F.smooth_l1_loss(reg[hit], box[hit])
        return obj_loss + self.cfg.box_weight * box_loss, obj_loss.detach()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    loader = DataLoader(SyntheticStrips(cfg), batch_size=cfg.batch, shuffle=True, drop_last=True)
    net = BeatNet(cfg).to(device)
    criterion = DetectionLoss(cfg)
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)

    step = 0
    for epoch in range(cfg.epochs):
        running = torch.zeros((), device=device)
        for sig, label, box in loader:
            sig, label, box = sig.to(device), label.to(device), box.to(device)
            opt.zero_grad()
            logits, reg = net(sig)
            loss, obj = criterion(logits, reg, label, box)
            loss.backward()
            running += loss.detach()
            xm.optimizer_step(opt, barrier=True)
            step += 1
        print(f"epoch {epoch}: loss {running.item() / len(loader):.4f} ({step} steps)")


if __name__ == "__main__":
    main()
