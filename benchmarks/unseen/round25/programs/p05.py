"""Speaker embeddings: x-vector TDNN with an additive margin head, trained on synthetic filterbanks."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    n_mels: int = 20
    n_speakers: int = 12
    batch_size: int = 8
    utt_frames: int = 80
    min_frames: int = 40
    max_frames: int = 60
    emb: int = 32
    margin: float = 0.15
    scale: float = 20.0
    lr: float = 2e-3
    steps: int = 36
    log_every: int = 6
    seed: int = 11


class Corpus:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed)
        self.timbre = self.rng.normal(size=(cfg.n_speakers, cfg.n_mels)).astype(np.float32)

    def batch(self):
        c = self.cfg
        spk = self.rng.integers(0, c.n_speakers, c.batch_size)
        t = np.arange(c.utt_frames)
        pitch = 0.5 + 0.1 * spk[:, None, None]
        env = np.sin(pitch * t[None, None, :] / 6.0)
        feats = self.timbre[spk][:, :, None] * (1 + 0.3 * env)
        feats = feats + self.rng.normal(scale=0.7, size=feats.shape)
        return torch.from_numpy(feats.astype(np.float32)), torch.from_numpy(spk)

    def chunk(self, feats):
        n = int(self.rng.integers(self.cfg.min_frames, self.cfg.max_frames + 1))
        start = int(self.rng.integers(0, feats.shape[-1] - n + 1))
        return feats[:, :, start:start + n].contiguous()


class XVector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tdnn = nn.ModuleList([
            nn.Conv1d(cfg.n_mels, 32, 5),
            nn.Conv1d(32, 32, 3, dilation=2),
            nn.Conv1d(32, 48, 1),
        ])
        self.proj = nn.Linear(96, cfg.emb)

    def forward(self, x):
        for layer in self.tdnn:
            x = F.leaky_relu(layer(x), 0.1)
        stats = torch.cat([x.mean(-1), x.var(-1, unbiased=False).add(1e-5).sqrt()], dim=1)
        return F.normalize(self.proj(stats), dim=1)


class AMSoftmax(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cfg.n_speakers, cfg.emb) * 0.1)
        self.m, self.s = cfg.margin, cfg.scale

    def forward(self, emb, y):
        cos = emb @ F.normalize(self.weight, dim=1).t()
        target = F.one_hot(y, cos.shape[1]).to(cos.dtype)
        return F.cross_entropy(self.s * (cos - self.m * target), y), cos


@dataclass
class TrialScores:
    """Keeps genuine/impostor cosine scores for an equal-error-rate curve."""
    cos: list = field(default_factory=list)
    spk: list = field(default_factory=list)

    def add(self, cos, y):
        self.cos.append(cos.detach())
        self.spk.append(y)

    def separation(self):
        cos, spk = torch.cat(self.cos), torch.cat(self.spk)
        same = F.one_hot(spk, cos.shape[1]).to(cos.dtype)
        pos = (cos * same).sum() / same.sum()
        neg = (cos * (1 - same)).sum() / (1 - same).sum()
        return pos - neg


def train(cfg):
    torch.manual_seed(cfg.seed)
    dev = xm.xla_device()
    corpus = Corpus(cfg)
    net, head = XVector(cfg).to(dev), AMSoftmax(cfg).to(dev)
    opt = torch.optim.Adam(list(net.parameters()) + list(head.parameters()), lr=cfg.lr)
    trials = TrialScores()
    for step in range(1, cfg.steps + 1):
        feats, y = corpus.batch()
        feats, y = corpus.chunk(feats).to(dev), y.to(dev)
        opt.zero_grad(set_to_none=True)
        loss, cos = head(net(feats), y)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        trials.add(cos, y)
        if step % cfg.log_every == 0:
            sep = trials.separation()
            print(f"{step:03d} loss={loss.item():.3f} separation={sep.item():.3f}")


if __name__ == "__main__":
    train(Config())
