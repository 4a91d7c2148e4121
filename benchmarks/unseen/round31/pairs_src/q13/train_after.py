"""PatchTST-like forecaster on hourly load curves (channel-independent, instance-normalised)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONTEXT, HORIZON, PATCH, CHANNELS = 48, 12, 8, 3
DIM, HEADS, DEPTH = 24, 3, 2


class SelfAttention(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)

    def split(self, t):
        return t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def forward(self, h):
        q, k, v = (self.split(f(h)) for f in (self.q, self.k, self.v))
        weights = F.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, width, n_head):
        super().__init__()
        self.attention = SelfAttention(width, n_head)
        self.ln_attention = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.ln_mlp = nn.LayerNorm(width)

    def forward(self, h):
        h = self.attention(self.ln_attention(h)) + h
        return self.fc2(F.gelu(self.fc1(self.ln_mlp(h)))) + h


class PatchForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        n = CONTEXT // PATCH
        self.pos = nn.Parameter(0.02 * torch.randn(n, DIM))
        self.embed = nn.Linear(PATCH, DIM)
        self.layers = nn.ModuleList([EncoderLayer(DIM, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(n * DIM, HORIZON)
        self.gain = nn.Parameter(torch.ones(CHANNELS))
        self.shift = nn.Parameter(torch.zeros(CHANNELS))

    def normalise(self, x):
        with torch.no_grad():
            loc = x.mean(1, keepdim=True)
            scale = ((x - loc).square().mean(1, keepdim=True) + 1e-5).sqrt()
        return (x - loc) / scale * self.gain + self.shift, loc, scale

    def denormalise(self, y, loc, scale):
        return loc + scale * ((y - self.shift) / (self.gain + 1e-5))

    def forward(self, x):
        # x: (batch, time, channel)
        x, loc, scale = self.normalise(x)
        b, t, c = x.shape
        patches = x.permute(0, 2, 1).reshape(b * c, t // PATCH, PATCH)
        h = self.embed(patches) + self.pos
        for layer in self.layers:
            h = layer(h)
        y = self.head(self.norm(h).flatten(1))
        return self.denormalise(y.reshape(b, c, HORIZON).permute(0, 2, 1), loc, scale)


def windows(steps, batch, seed=0):
    g = np.random.default_rng(seed)
    t = np.arange(3000)
    load = np.stack([np.sin(2 * np.pi * t / p) + 0.3 * np.sin(2 * np.pi * t / (7 * p)) for p in (24, 12, 31)], 1)
    load = load * np.array([1.0, 5.0, 0.2]) + np.array([3.0, 20.0, 0.5]) + 0.05 * g.normal(size=(len(t), CHANNELS))
    for _ in range(steps):
        lo = g.integers(0, len(t) - CONTEXT - HORIZON, size=batch)
        w = np.stack([load[i:i + CONTEXT + HORIZON] for i in lo]).astype(np.float32)
        valid = (g.random((batch, HORIZON, CHANNELS)) < 0.9).astype(np.float32)
        yield torch.from_numpy(w[:, :CONTEXT]), torch.from_numpy(w[:, CONTEXT:]), torch.from_numpy(valid)


def masked_huber(pred, target, valid):
    per_point = F.smooth_l1_loss(pred, target, reduction="none", beta=1.0)
    weight = valid / valid.sum().clamp(min=1)
    return torch.sum(weight * per_point)


def main(model=None, steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    model = (model or PatchForecaster()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    torch_xla.sync()
    losses = []
    for x, y, valid in windows(steps, 8):
        x, y, valid = x.to(device), y.to(device), valid.to(device)
        opt.zero_grad()
        loss = masked_huber(model(x), y, valid)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main())
