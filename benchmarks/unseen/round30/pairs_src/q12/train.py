import math
import random

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

# small speech encoder, frame-level phone targets
N_MELS, N_PHONES = 20, 11
WIDTH, HEADS, DEPTH = 32, 4, 3
BATCH, FRAMES = 4, 24
LAYERDROP = 0.25


class ConvPos(nn.Module):
    def __init__(self, d, k=7):
        super().__init__()
        self.conv = nn.Conv1d(d, d, k, padding=k // 2, groups=4)

    def forward(self, x):
        return x + F.gelu(self.conv(x.transpose(1, 2))).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.ln2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.h), dim=-1)
        x = x + self.out((w @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(N_MELS, WIDTH)
        self.pos = ConvPos(WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, HEADS) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, N_PHONES)

    def forward(self, mel):
        x = self.pos(self.inp(mel))
        for layer in self.layers:
            if self.training and random.random() < LAYERDROP:
                continue
            x = layer(x)
        return self.head(self.norm(x))


def fake_batch(gen):
    mel = torch.randn(BATCH, FRAMES, N_MELS, generator=gen)
    phones = (mel[..., :N_PHONES] + 0.1 * mel[..., -N_PHONES:]).argmax(-1)
    return mel, phones


def specaug(mel):
    # zero one band of mel channels, same for the whole batch
    mel = mel.clone()
    mel[..., 4:7] = 0
    return mel


def run(steps=6):
    random.seed(674)
    torch.manual_seed(0)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(1)
    model = Encoder().to(dev).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    for i in range(steps):
        mel, phones = fake_batch(gen)
        mel, phones = specaug(mel).to(dev), phones.to(dev)
        with torch_xla.step():
            opt.zero_grad(set_to_none=True)
            logits = model(mel)
            loss = F.cross_entropy(logits.flatten(0, 1), phones.flatten())
            loss.backward()
            opt.step()
        seen.append(loss.detach())
    for i, l in enumerate(seen):
        print(f"step {i} loss {l.item():.4f}")


if __name__ == "__main__":
    run()
