"""Weakly labelled audio tagging: log-mel frames -> small CRNN -> attention pooling, focal BCE."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = {
    "seed": 7,
    "n_mels": 32,
    "frames": 48,
    "classes": 6,
    "batch": 8,
    "steps": 40,
    "lr": 2e-3,
    "warmup": 10,
    "gamma": (0.5, 2.5),
    "log_every": 10,
}


def synth_clip(rng, cfg):
    """A handful of 'events', each a band of mel bins active for a while."""
    mel = rng.normal(0.0, 0.3, (cfg["frames"], cfg["n_mels"])).astype(np.float32)
    label = np.zeros(cfg["classes"], dtype=np.float32)
    for c in rng.choice(cfg["classes"], size=rng.integers(1, 3), replace=False):
        start = rng.integers(0, cfg["frames"] - 12)
        lo = 5 * c
        mel[start:start + 12, lo:lo + 5] += 1.5
        label[c] = 1.0
    return mel, label


def batches(cfg):
    rng = np.random.default_rng(cfg["seed"])
    while True:
        clips = [synth_clip(rng, cfg) for _ in range(cfg["batch"])]
        mel = torch.from_numpy(np.stack([c[0] for c in clips]))
        lab = torch.from_numpy(np.stack([c[1] for c in clips]))
        yield mel, lab


class Tagger(nn.Module):

    def __init__(self, cfg, width=24):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(cfg["n_mels"], width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
        )
        self.att = nn.Conv1d(width, cfg["classes"], 1)
        self.cla = nn.Conv1d(width, cfg["classes"], 1)

    def forward(self, mel):
        h = self.conv(mel.transpose(1, 2))
        att = torch.softmax(self.att(h), dim=-1)
        return (att * self.cla(h)).sum(-1)


class FocalBCE(nn.Module):

    def __init__(self, gamma=2.0, alpha=0.75):
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = torch.exp(-bce)
        weight = self.alpha * target + (1.0 - self.alpha) * (1.0 - target)
        focal = (1.0 - pt).clamp(min=1e-4) ** self.gamma
        return (weight * focal * bce).mean()


class Trainer:

    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        self.model = Tagger(cfg).to(self.device)
        self.criterion = FocalBCE(gamma=cfg["gamma"][0])
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"], weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self.lr_factor)

    def lr_factor(self, step):
        warm = min(1.0, (step + 1) / self.cfg["warmup"])
        return warm * 0.5 * (1 + math.cos(math.pi * step / self.cfg["steps"]))

    def set_progress(self, frac):
        lo, hi = self.cfg["gamma"]
        self.criterion.gamma = lo + (hi - lo) * frac

    def fit(self):
        self.model.train()
        stream = batches(self.cfg)
        for step in range(self.cfg["steps"]):
            self.set_progress(step / self.cfg["steps"])
            mel, lab = next(stream)
            mel, lab = mel.to(self.device), lab.to(self.device)
            self.opt.zero_grad()
            logits = self.model(mel)
            loss = self.criterion(logits, lab)
            loss.backward()
            self.opt.step()
            self.sched.step()
            torch_xla.sync()
            if (step + 1) % self.cfg["log_every"] == 0:
                lr = self.opt.param_groups[0]["lr"]
                print(f"step {step + 1:3d}  lr {lr:.2e}  loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(CFG["seed"])
    Trainer(CFG).fit()
