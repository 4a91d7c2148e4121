"""Frame-level phone classifier; one optimizer update per `update_seconds` of speech."""
import math
import os
from dataclasses import dataclass

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    phones: int = 18
    mels: int = 20
    frames: int = 128          # every utterance is padded or cut to this
    frame_ms: float = 20.0
    micro_batch: int = 4
    update_seconds: float = 10.4
    updates: int = 28
    dim: int = 40
    layers: int = 1
    lr: float = 2e-3
    warmup: int = 6
    seed: int = 21


class UtteranceStream:
    """Mostly short commands with some long dictations, grouped by speaker session."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed)
        self.prototypes = self.rng.normal(size=(cfg.phones, cfg.mels))

    def session_scale(self):
        return float(np.exp(self.rng.normal(3.2, 0.75)))

    def utterance(self, scale):
        n = int(np.clip(self.rng.gamma(4.0, scale / 4.0), 6, self.cfg.frames))
        phones = np.repeat(self.rng.integers(0, self.cfg.phones, size=n // 3 + 1), 3)[:n]
        mel = self.prototypes[phones] + self.rng.normal(0, 0.7, size=(n, self.cfg.mels))
        return mel.astype(np.float32), phones

    def __iter__(self):
        cfg = self.cfg
        while True:
            scale = self.session_scale()
            for _ in range(self.rng.integers(2, 6)):
                x = np.zeros((cfg.micro_batch, cfg.frames, cfg.mels), dtype=np.float32)
                y = np.full((cfg.micro_batch, cfg.frames), -100, dtype=np.int64)
                for row in range(cfg.micro_batch):
                    mel, phones = self.utterance(scale)
                    x[row, :len(mel)] = mel
                    y[row, :len(phones)] = phones
                frames = int((y >= 0).sum())
                yield torch.from_numpy(x), torch.from_numpy(y), frames


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=9):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Linear(dim, 2 * dim)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.pw2 = nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        value, gate = self.pw1(self.norm(x)).chunk(2, dim=-1)
        h = value * torch.sigmoid(gate)
        h = F.silu(self.dw(h.transpose(1, 2)).transpose(1, 2))
        return x + self.drop(self.pw2(h))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(),
                                 nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + 0.5 * self.net(x)


class PhoneNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.mels, cfg.dim)
        self.blocks = nn.Sequential(*[
            nn.Sequential(ConvModule(cfg.dim), FeedForward(cfg.dim))
            for _ in range(cfg.layers)])
        self.out = nn.Linear(cfg.dim, cfg.phones)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x)))


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.model = PhoneNet(cfg).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=1e-2)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.lr_scale)
        self.budget = int(cfg.update_seconds * 1000 / cfg.frame_ms)

    def lr_scale(self, update):
        if update < self.cfg.warmup:
            return (update + 1) / self.cfg.warmup
        return math.sqrt(self.cfg.warmup / (update + 1))

    def backward(self, x, y):
        logits = self.model(x)
        nll = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
        (nll / self.budget).backward()
        return nll.detach()

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        torch_xla.sync()

    def fit(self, stream):
        self.model.train()
        nll_sum = torch.zeros((), device=self.device)
        frames_in_update = frames_total = done = 0
        for x, y, frames in stream:
            nll_sum += self.backward(x.to(self.device), y.to(self.device))
            frames_in_update += frames
            if frames_in_update < self.budget:
                continue
            self.update()
            frames_total += frames_in_update
            frames_in_update = 0
            done += 1
            if done % 7 == 0:
                hours = frames_total * self.cfg.frame_ms / 3.6e6
                xm.master_print(f"update {done:3d}  {hours:.3f} h  nll/frame {nll_sum.item() / frames_total:.4f}")
            if done == self.cfg.updates:
                break


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    Trainer(cfg, torch_xla.device()).fit(UtteranceStream(cfg))


if __name__ == "__main__":
    main()
