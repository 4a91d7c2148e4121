"""Keyword spotting on log-mel frames with a small speech transformer encoder."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CFG = {
    "n_mels": 16,
    "frames": 32,
    "n_classes": 6,
    "d_model": 32,
    "n_heads": 4,
    "n_layers": 4,
    "ffn": 48,
    "layerdrop": 0.2,
    "batch_size": 16,
    "epochs": 3,
    "lr": 2e-3,
    "seed": 17,
}


class SyntheticCommands(Dataset):
    """Chirps with a class dependent slope, rendered straight to the mel domain."""

    def __init__(self, n, cfg, seed):
        rng = np.random.default_rng(seed)
        t = np.linspace(0, 1, cfg["frames"])
        self.y = rng.integers(0, cfg["n_classes"], n)
        mel = np.arange(cfg["n_mels"])[None, :]
        feats = []
        for y in self.y:
            center = 4 + 2 * y * t + rng.normal(0, 0.5)
            feats.append(np.exp(-0.5 * (mel - center[:, None]) ** 2) + 0.1 * rng.normal(size=(len(t), cfg["n_mels"])))
        self.x = np.stack(feats).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d, h = cfg["d_model"], cfg["n_heads"]
        self.h = h
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, cfg["ffn"]), nn.GELU(), nn.Linear(cfg["ffn"], d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2) / math.sqrt(d // self.h)).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ffn(self.norm2(x))


class SpeechEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.layerdrop = cfg["layerdrop"]
        self.subsample = nn.Conv1d(cfg["n_mels"], cfg["d_model"], 3, stride=2, padding=1)
        self.pos = nn.Parameter(torch.randn(1, cfg["frames"] // 2, cfg["d_model"]) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg["n_layers"]))
        self.norm = nn.LayerNorm(cfg["d_model"])
        self.head = nn.Linear(cfg["d_model"], cfg["n_classes"])

    def forward(self, feats):
        x = F.gelu(self.subsample(feats.transpose(1, 2))).transpose(1, 2) + self.pos
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def main(cfg):
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    train = SyntheticCommands(16 * 18, cfg, seed=1)
    loader = DataLoader(train, batch_size=cfg["batch_size"], shuffle=True, drop_last=True)
    model = SpeechEncoder(cfg).to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)

    def report(epoch, loss, acc):
        print(f"epoch {epoch} loss {loss.item():.4f} acc {acc.item():.3f}", flush=True)

    for epoch in range(cfg["epochs"]):
        device_loader = pl.MpDeviceLoader(loader, device)
        for feats, labels in device_loader:
            opt.zero_grad()
            logits = model(feats)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
            loss.backward()
            xm.optimizer_step(opt)
            acc = (logits.argmax(-1) == labels).float().mean()
        xm.add_step_closure(report, args=(epoch, loss.detach(), acc))
        xm.mark_step()


if __name__ == "__main__":
    main(CFG)
