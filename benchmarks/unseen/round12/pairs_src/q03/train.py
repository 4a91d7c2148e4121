"""Frame-level phone classification with a small wav2vec2-style encoder."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

config = dict(mels=20, frames=32, dim=32, heads=2, ffn=64, layers=4, layerdrop=0.1, phones=12,
              batch=4, lr=1e-3, updates=8, log_interval=4)


class ConvFrontend(nn.Module):
    def __init__(self, mels, dim):
        super().__init__()
        self.c1 = nn.Conv1d(mels, dim, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(dim, dim, 3, stride=1, padding=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, feats):
        x = F.gelu(self.c1(feats.transpose(1, 2)))
        x = F.gelu(self.c2(x))
        return self.norm(x.transpose(1, 2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)

    def forward(self, x):
        a, _ = self.attn(x, x, x, need_weights=False)
        x = self.ln1(x + a)
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class AcousticEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.frontend = ConvFrontend(cfg["mels"], cfg["dim"])
        self.layers = nn.ModuleList(
            EncoderLayer(cfg["dim"], cfg["heads"], cfg["ffn"]) for _ in range(cfg["layers"]))
        self.layerdrop = cfg["layerdrop"]
        self.classifier = nn.Linear(cfg["dim"], cfg["phones"])

    def forward(self, feats):
        x = self.frontend(feats)
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x)
        return self.classifier(x)


class PhoneTask:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(5)
        self.proto = torch.randn(cfg["phones"], cfg["mels"], generator=self.gen)

    def sample(self):
        c = self.cfg
        labels = torch.randint(0, c["phones"], (c["batch"], c["frames"] // 2), generator=self.gen)
        feats = self.proto[labels.repeat_interleave(2, dim=1)]
        feats = feats + 0.5 * torch.randn(feats.shape, generator=self.gen)
        return feats, labels


def run(cfg):
    random.seed(11)
    torch.manual_seed(11)
    device = torch_xla.device()
    task = PhoneTask(cfg)
    model = AcousticEncoder(cfg).to(device)
    model.train()
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.98))
    for update in range(1, cfg["updates"] + 1):
        feats, labels = task.sample()
        feats, labels = feats.to(device), labels.to(device)
        logits = model(feats)
        loss = F.cross_entropy(logits.reshape(-1, cfg["phones"]), labels.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if update % cfg["log_interval"] == 0:
            print(f"update {update}: loss {loss.item():.3f}")


if __name__ == "__main__":
    run(config)
