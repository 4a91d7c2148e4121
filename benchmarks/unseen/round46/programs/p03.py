"""Seismic phase picker: one-stage detector over three component waveforms.

The backbone reduces a window by a factor of 8. Every output cell predicts
whether an arrival falls into it, the offset inside the cell and the logarithm
of the amplitude.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

WINDOW = 256
STRIDE = 8
CELLS = WINDOW // STRIDE


class Waveforms(Dataset):
    """Synthetic windows, quiet ones and swarms."""

    def __init__(self, size, seed):
        self.size = size
        self.seed = seed

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        x = 0.1 * rng.normal(size=(3, WINDOW))
        cls = np.zeros(CELLS)
        reg = np.zeros((2, CELLS))
        t = np.arange(WINDOW)
        for _ in range(1 + rng.poisson(rng.gamma(0.7, 3.0))):
            onset = rng.uniform(8, WINDOW - 24)
            amp = np.exp(rng.normal(0.0, 0.5))
            freq = rng.uniform(0.2, 0.9)
            env = np.where(t >= onset, np.exp(-(t - onset) / 20.0), 0.0)
            pol = rng.normal(size=(3, 1))
            x += amp * pol * env * np.sin(freq * (t - onset))
            cell = int(onset // STRIDE)
            cls[cell] = 1.0
            reg[0, cell] = onset / STRIDE - cell
            reg[1, cell] = np.log(amp)
        return (
            torch.from_numpy(x.astype(np.float32)),
            torch.from_numpy(cls.astype(np.float32)),
            torch.from_numpy(reg.astype(np.float32)),
        )


def block(cin, cout, stride):
    return nn.Sequential(
        nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False),
        nn.GroupNorm(4, cout),
        nn.GELU(),
    )


class Picker(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = block(3, width, 4)
        self.down = block(width, 2 * width, 2)
        self.ctx = block(2 * width, 2 * width, 1)
        self.cls = nn.Conv1d(2 * width, 1, 1)
        self.reg = nn.Conv1d(2 * width, 2, 1)
        nn.init.constant_(self.cls.bias, -2.5)

    def forward(self, x):
        h = self.down(self.stem(x))
        h = h + self.ctx(h)
        return self.cls(h).squeeze(1), self.reg(h)


def focal(logits, target, alpha=0.75, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    pt = p * target + (1 - p) * (1 - target)
    w = alpha * target + (1 - alpha) * (1 - target)
    return w * (1 - pt).pow(gamma) * ce


class PickLoss(nn.Module):
    def __init__(self, w_offset=1.0, w_amp=0.5):
        super().__init__()
        self.w_offset = w_offset
        self.w_amp = w_amp

    def forward(self, logits, reg, cls_t, reg_t):
        hit = cls_t > 0.5
        n_hit = hit.sum().clamp(min=1)
        l_cls = focal(logits, cls_t).sum() / n_hit
        offset, amp = reg[:, 0], reg[:, 1]
        l_off = F.smooth_l1_loss(torch.sigmoid(offset[hit]), reg_t[:, 0][hit], beta=0.1)
        l_amp = F.l1_loss(amp[hit], reg_t[:, 1][hit])
        total = l_cls + self.w_offset * l_off + self.w_amp * l_amp
        return total, {"cls": l_cls.detach(), "off": l_off.detach(), "amp": l_amp.detach()}


def train(epochs=2, batch_size=12, lr=2e-3):
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(Waveforms(144, seed=5), batch_size=batch_size, shuffle=True,
                        drop_last=True, generator=torch.Generator().manual_seed(1))
    model = Picker().to(device)
    criterion = PickLoss()
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
    total_steps = epochs * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=5 * lr, total_steps=total_steps)

    step = 0
    for epoch in range(epochs):
        model.train()
        for x, cls_t, reg_t in loader:
            x, cls_t, reg_t = x.to(device), cls_t.to(device), reg_t.to(device)
            logits, reg = model(x)
            loss, parts = criterion(logits, reg, cls_t, reg_t)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            torch_xla.sync()
            step += 1
            if step % 8 == 0:
                shown = "  ".join(f"{k} {v.item():.3f}" for k, v in parts.items())
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}  {shown}")


if __name__ == "__main__":
    train()
