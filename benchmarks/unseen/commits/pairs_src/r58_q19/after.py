import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(channels, 1))
        self.shift = nn.Parameter(torch.zeros(channels, 1))

    def normalize(self, x):
        mean = x.mean(-1, keepdim=True)
        std = (x.var(-1, keepdim=True, unbiased=False) + self.eps).sqrt()
        return (x - mean) / std * self.scale + self.shift, (mean, std)

    def denormalize(self, y, stats):
        mean, std = stats
        return (y - self.shift) / (self.scale + self.eps) * std + mean


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        score = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        return torch.matmul(score.softmax(-1), v).transpose(1, 2).flatten(2)

    def forward(self, x):
        x = x + self.proj(self.attend(self.norm1(x)))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class PatchForecaster(nn.Module):
    def __init__(self, channels, context, horizon, patch=8, stride=4, d=16, heads=2, layers=1):
        super().__init__()
        self.patch, self.stride = patch, stride
        n = (context - patch) // stride + 2
        self.revin = RevIN(channels)
        self.embed = nn.Linear(patch, d)
        self.pos = nn.Parameter(0.02 * torch.randn(n, d))
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.head = nn.Linear(n * d, horizon)

    def forward(self, x):
        b, c, _ = x.shape
        x, stats = self.revin.normalize(x)
        x = F.pad(x, (0, self.stride), mode="replicate")
        n = self.pos.size(0)
        p = torch.stack([x[..., i * self.stride:i * self.stride + self.patch] for i in range(n)], 2)
        h = self.embed(p.flatten(0, 1)) + self.pos
        for block in self.blocks:
            h = block(h)
        y = self.head(h.flatten(1)).view(b, c, -1)
        return self.revin.denormalize(y, stats)


class Windows:
    def __init__(self, channels=3, length=400, context=32, horizon=8, seed=0):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(length).float()
        period = torch.tensor([12.0, 24.0, 7.0])[:channels, None]
        self.series = torch.sin(2 * math.pi * t / period) + 0.1 * torch.randn(channels, length, generator=g)
        self.context, self.horizon, self.gen = context, horizon, g

    def batch(self, bs):
        last = self.series.size(1) - self.context - self.horizon
        starts = torch.randint(0, last, (bs,), generator=self.gen).tolist()
        w = torch.stack([self.series[:, s:s + self.context + self.horizon] for s in starts])
        return w[..., :self.context], w[..., self.context:]


def step_fn(model, opt, x, y):
    pred = model(x)
    loss = F.l1_loss(pred, y) + 0.5 * F.mse_loss(pred, y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    torch_xla.sync()
    return loss


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    data = Windows()
    model = PatchForecaster(3, data.context, data.horizon).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=2e-2, momentum=0.9)
    torch_xla.sync()
    for step in range(int(os.environ.get("STEPS", 4))):
        x, y = (t.to(device) for t in data.batch(8))
        loss = step_fn(model, opt, x, y)
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
