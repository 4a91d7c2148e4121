"""Sleep stage scoring from 30-second EEG epochs: patch tokens + transformer layers."""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STAGES = ("wake", "n1", "n2", "n3", "rem")


def sinusoid(length, dim):
    pos = torch.arange(length).unsqueeze(1)
    freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(1000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(pos * freq)
    table[:, 1::2] = torch.cos(pos * freq)
    return table


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads), dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return x


class SleepScorer(nn.Module):
    def __init__(self, channels=2, patch=20, length=240, dim=16, heads=2, depth=2):
        super().__init__()
        self.patch = nn.Conv1d(channels, dim, patch, stride=patch)
        self.register_buffer("position", sinusoid(length // patch, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, len(STAGES))

    def forward(self, eeg):
        x = self.patch(eeg).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))


class Nights:
    """Synthetic epochs: each stage has its own dominant frequency."""

    def __init__(self, seed, length=240, channels=2):
        self.gen = torch.Generator().manual_seed(seed)
        self.t = torch.linspace(0, 30, length)
        self.freq = torch.tensor([1.6, 1.0, 0.7, 0.25, 1.2])
        self.channels = channels

    def draw(self, n):
        stage = torch.randint(0, len(STAGES), (n,), generator=self.gen)
        phase = 6.28 * torch.rand(n, self.channels, 1, generator=self.gen)
        wave = torch.sin(6.28 * self.freq[stage].view(n, 1, 1) * self.t + phase)
        return wave + 0.4 * torch.randn(wave.shape, generator=self.gen), stage


def main(steps=16, batch=8):
    torch.manual_seed(4)
    device = xm.xla_device()
    nights = Nights(seed=12)
    model = SleepScorer().to(device)
    weights = torch.tensor([0.8, 1.6, 0.7, 1.1, 1.0]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)

    for step in range(1, steps + 1):
        eeg, stage = nights.draw(batch)
        loss = F.cross_entropy(model(eeg.to(device)), stage.to(device), weight=weights)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 8 == 0:
            print(f"step {step}: {loss.item():.4f}", file=sys.stderr)


if __name__ == "__main__":
    main()
