"""Audio tagging: log-mel style features from synthetic clips, multi-label, focal loss."""
import logging
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("tagger")


@dataclass
class Config:
    n_tags: int = 6
    n_clips: int = 192
    clip_len: int = 512
    frame: int = 32
    batch: int = 32
    epochs: int = 6
    lr: float = 3e-3
    gamma_start: float = 0.5
    gamma_end: float = 2.5
    log_every: int = 4


def synth_clips(cfg, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(cfg.clip_len) / cfg.clip_len
    tags = (rng.random((cfg.n_clips, cfg.n_tags)) < 0.3).astype(np.float32)
    wave = rng.normal(0, 0.5, (cfg.n_clips, cfg.clip_len))
    for k in range(cfg.n_tags):
        phase = rng.uniform(0, 6.28, (cfg.n_clips, 1))
        wave += tags[:, k:k + 1] * np.sin(2 * np.pi * (12 + 30 * k) * t + phase)
    return wave.astype(np.float32), tags


def log_spec(wave, frame):
    frames = wave.reshape(len(wave), -1, frame) * np.hanning(frame)
    power = np.abs(np.fft.rfft(frames, axis=-1)) ** 2
    return np.log1p(power).astype(np.float32)


class Tagger(nn.Module):

    def __init__(self, n_bins, n_tags, hidden=48):
        super().__init__()
        self.conv1 = nn.Conv1d(n_bins, hidden, 3, padding=1)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, padding=1)
        self.att = nn.Conv1d(hidden, n_tags, 1)
        self.cla = nn.Conv1d(hidden, n_tags, 1)

    def forward(self, spec):
        h = F.relu(self.conv1(spec.transpose(1, 2)))
        h = F.relu(self.conv2(h)) + h
        w = torch.softmax(self.att(h), dim=-1)
        return (w * self.cla(h)).sum(-1)


class FocalLoss(nn.Module):

    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        return ((1 - p_t) ** self.gamma * bce).mean()


class Meter:
    """Collects training losses without pulling them to the host every step."""

    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value.detach())

    def summary(self):
        v = torch.stack(self.values)
        return v.mean().item(), v.min().item()


class Trainer:

    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        wave, tags = synth_clips(cfg, seed=11)
        self.spec, self.tags = log_spec(wave, cfg.frame), tags
        self.model = Tagger(self.spec.shape[-1], cfg.n_tags).to(self.device)
        self.criterion = FocalLoss(cfg.gamma_start)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.meter = Meter()
        self.rng = np.random.default_rng(5)
        self.step = 0
        self.total = cfg.epochs * (cfg.n_clips // cfg.batch)

    def batches(self):
        order = self.rng.permutation(self.cfg.n_clips)
        for chunk in order.reshape(-1, self.cfg.batch):
            yield torch.from_numpy(self.spec[chunk]).to(self.device), torch.from_numpy(self.tags[chunk]).to(self.device)

    def train_step(self, spec, tags):
        frac = self.step / self.total
        self.criterion.gamma = self.cfg.gamma_start + frac * (self.cfg.gamma_end - self.cfg.gamma_start)
        loss = self.criterion(self.model(spec), tags)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        self.step += 1
        self.meter.update(loss)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            for spec, tags in self.batches():
                self.train_step(spec, tags)
                if self.step % self.cfg.log_every == 0:
                    mean, best = self.meter.summary()
                    log.info("ep %d step %3d loss %.4f (best %.4f)", epoch, self.step, mean, best)


if __name__ == "__main__":
    torch.manual_seed(1)
    Trainer(Config()).fit()
