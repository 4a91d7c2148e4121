"""PatchTST for electricity transformer temperature (channel independent)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    channels: int = 7
    context: int = 28
    horizon: int = 12
    patch: int = 8
    stride: int = 4
    dim: int = 32
    heads: int = 4
    layers: int = 2
    res_attention: bool = True
    lr: float = 1e-3


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def normalize(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / std * self.weight + self.bias, (mean, std)

    def denormalize(self, y, stats):
        mean, std = stats
        return (y - self.bias) / (self.weight + self.eps ** 2) * std + mean


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        self.scale = (cfg.dim // cfg.heads) ** -0.5

    def forward(self, x, prev=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * self.scale
        if prev is not None:
            scores = scores + prev
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        return self.out(out), scores


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = Attention(cfg)
        self.norm1, self.norm2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(), nn.Linear(2 * cfg.dim, cfg.dim))
        self.res_attention = cfg.res_attention

    def forward(self, x, prev=None):
        a, scores = self.attn(x, prev)
        x = self.norm1(x + a)
        x = self.norm2(x + self.ff(x))
        return x, scores if self.res_attention else None


class PatchTST(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        n = (cfg.context - cfg.patch) // cfg.stride + 1
        self.revin = RevIN(cfg.channels)
        self.embed = nn.Linear(cfg.patch, cfg.dim)
        self.pos = nn.Parameter(torch.empty(n, cfg.dim).uniform_(-0.02, 0.02))
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.head = nn.Linear(n * cfg.dim, cfg.horizon)

    def forward(self, x):
        x, stats = self.revin.normalize(x)
        b, _, c = x.shape
        p = x.transpose(1, 2).reshape(b * c, -1)
        starts = range(0, self.cfg.context - self.cfg.patch + 1, self.cfg.stride)
        h = self.embed(torch.stack([p[:, s:s + self.cfg.patch] for s in starts], 1)) + self.pos
        scores = None
        for layer in self.layers:
            h, scores = layer(h, scores)
        y = self.head(h.flatten(1)).view(b, c, -1).transpose(1, 2)
        return self.revin.denormalize(y, stats)


def main():
    torch.manual_seed(0)
    cfg = Config()
    device = torch_xla.device()
    model = PatchTST(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(4):
        series = torch.randn(4, cfg.context + cfg.horizon, cfg.channels, generator=gen).cumsum(1).to(device)
        opt.zero_grad()
        pred = model(series[:, :cfg.context])
        loss = F.mse_loss(pred, series[:, cfg.context:])
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
