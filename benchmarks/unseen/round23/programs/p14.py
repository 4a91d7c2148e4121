"""Keyword spotting from log-power features, small pre-norm encoder with layer drop."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

hparams = {
    "seed": 11,
    "n_clips": 224,
    "samples": 512,
    "n_fft": 32,
    "hop": 32,
    "d_model": 24,
    "layers": 4,
    "layerdrop": 0.25,
    "classes": 5,
    "batch": 16,
    "epochs": 2,
    "lr": 1e-3,
}


class ToneClips(Dataset):
    """Synthetic 'keywords': chirps with class-dependent start and end frequency."""

    def __init__(self, hp):
        g = torch.Generator().manual_seed(hp["seed"])
        self.y = torch.randint(0, hp["classes"], (hp["n_clips"],), generator=g)
        t = torch.linspace(0, 1, hp["samples"])
        f0 = 10 + 15 * self.y[:, None]
        f1 = 90 - 12 * self.y[:, None]
        self.x = torch.sin(2 * math.pi * (f0 * t + 0.5 * (f1 - f0) * t ** 2))
        self.x += 0.3 * torch.randn(self.x.shape, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Frontend(nn.Module):
    def __init__(self, hp):
        super().__init__()
        n, hop = hp["n_fft"], hp["hop"]
        k = torch.arange(n // 2 + 1).float()[:, None] * torch.arange(n).float()[None] * 2 * math.pi / n
        window = torch.hann_window(n)
        self.register_buffer("basis", torch.cat([k.cos() * window, k.sin() * window])[:, None])
        self.hop = hop

    def power(self, wav):
        re, im = F.conv1d(wav[:, None], self.basis, stride=self.hop).chunk(2, dim=1)
        return re ** 2 + im ** 2

    def forward(self, wav):
        spec = self.power(wav) + 1e-5
        if self.training:
            # random loudness: vary the root compression around the usual 0.3
            root = random.uniform(0.2, 0.4)
        else:
            root = 0.3
        feat = spec ** root
        return (feat - feat.mean(dim=2, keepdim=True)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, dim=-1)
        att = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.size(-1)), dim=-1)
        x = x + self.proj(att @ v)
        return x + self.ff(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.frontend = Frontend(hp)
        self.embed = nn.Linear(hp["n_fft"] // 2 + 1, hp["d_model"])
        self.blocks = nn.ModuleList(Block(hp["d_model"]) for _ in range(hp["layers"]))
        self.head = nn.Linear(hp["d_model"], hp["classes"])
        self.layerdrop = hp["layerdrop"]

    def forward(self, wav):
        with torch.no_grad():
            feat = self.frontend(wav)
        h = self.embed(feat)
        for block in self.blocks:
            if self.training and random.random() < self.layerdrop:
                continue
            h = block(h)
        return self.head(h.mean(dim=1))


def train(hp):
    random.seed(hp["seed"])
    torch.manual_seed(hp["seed"])
    device = torch_xla.device()
    model = Encoder(hp).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=hp["lr"] * 20, momentum=0.9)
    loader = DataLoader(ToneClips(hp), batch_size=hp["batch"], shuffle=True, drop_last=True)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch_xla.sync()
    for epoch in range(hp["epochs"]):
        model.train()
        total = torch.zeros(1).to(device)
        for wav, label in loader:
            wav, label = wav.to(device), label.to(device)
            opt.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(wav), label)
            loss.backward()
            total += loss.detach()
            xm.optimizer_step(opt, barrier=True)
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    train(hparams)
