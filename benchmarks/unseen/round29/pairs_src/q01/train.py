"""Frame-level phoneme tagging with a small conv + transformer encoder."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = {
    "n_mels": 20,
    "dim": 32,
    "heads": 4,
    "ffn": 64,
    "blocks": 2,
    "layerdrop": 0.2,
    "classes": 11,
    "frames": 48,
    "batch": 4,
    "lr": 3e-2,
    "momentum": 0.9,
    "steps": 12,
    "seed": 5,
}


class SubsampleFrontend(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.conv = nn.Conv1d(cfg["n_mels"], cfg["dim"], 5, stride=2, padding=2)
        self.norm = nn.LayerNorm(cfg["dim"])

    def forward(self, mel):
        h = F.gelu(self.conv(mel.transpose(1, 2)))
        return self.norm(h.transpose(1, 2))


class EncoderBlock(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        d = cfg["dim"]
        self.heads = cfg["heads"]
        self.norm_att = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.norm_ffn = nn.LayerNorm(d)
        self.up = nn.Linear(d, cfg["ffn"])
        self.down = nn.Linear(cfg["ffn"], d)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(-1)
        return self.proj((w @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.norm_att(x))
        return x + self.down(F.silu(self.up(self.norm_ffn(x))))


class Tagger(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.frontend = SubsampleFrontend(cfg)
        self.blocks = nn.ModuleList(EncoderBlock(cfg) for _ in range(cfg["blocks"]))
        self.head = nn.Linear(cfg["dim"], cfg["classes"])
        self.layerdrop = cfg["layerdrop"]

    def forward(self, mel):
        x = self.frontend(mel)
        for block in self.blocks:
            if self.training and random.random() < self.layerdrop:
                continue
            x = block(x)
        return self.head(x)


def make_batch(cfg, gen):
    mel = torch.randn(cfg["batch"], cfg["frames"], cfg["n_mels"], generator=gen)
    tags = torch.randint(0, cfg["classes"], (cfg["batch"], cfg["frames"] // 2), generator=gen)
    return mel, tags


class Trainer:

    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        torch.manual_seed(cfg["seed"])
        random.seed(cfg["seed"])
        self.gen = torch.Generator().manual_seed(cfg["seed"])
        self.model = Tagger(cfg).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg["lr"],
                                   momentum=cfg["momentum"])
        torch_xla.sync()

    def step(self):
        mel, tags = (t.to(self.device) for t in make_batch(self.cfg, self.gen))
        self.opt.zero_grad()
        logits = self.model(mel)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def fit(self):
        self.model.train()
        for i in range(self.cfg["steps"]):
            loss = self.step()
            if i % 4 == 3:
                print(f"step {i + 1:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    Trainer(CFG).fit()
