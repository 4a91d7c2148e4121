"""Two-tower contrastive training: satellite tiles against weather-station series."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, EMB = 8, 12
MAX_SCALE = math.log(100.0)


class TileTower(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.patch = nn.Conv2d(4, w, 4, stride=4)
        self.dw = nn.Conv2d(w, w, 3, padding=1, groups=w)
        self.norm = nn.LayerNorm(w)
        self.pw1 = nn.Linear(w, 2 * w)
        self.pw2 = nn.Linear(2 * w, w)
        self.proj = nn.Linear(w, EMB, bias=False)

    def forward(self, x):
        x = self.patch(x)
        h = self.dw(x).permute(0, 2, 3, 1)
        h = self.pw2(F.gelu(self.pw1(self.norm(h)), approximate="tanh"))
        h = x.permute(0, 2, 3, 1) + h
        return self.proj(h.mean((1, 2)))


class SeriesTower(nn.Module):
    def __init__(self, cin=5, w=8):
        super().__init__()
        self.c1 = nn.Conv1d(cin, w, 5, padding=2)
        self.n1 = nn.GroupNorm(2, w)
        self.c2 = nn.Conv1d(w, w, 3, padding=2, dilation=2)
        self.n2 = nn.GroupNorm(2, w)
        self.proj = nn.Linear(w, EMB, bias=False)

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = x + F.relu(self.n2(self.c2(x)))
        return self.proj(x.amax(-1))


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.tiles = TileTower()
        self.series = SeriesTower()
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, img, ts):
        a = F.normalize(self.tiles(img), dim=-1)
        b = F.normalize(self.series(ts), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


def param_groups(model, weight_decay):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if name.endswith("bias") or ".norm." in name:
            no_decay.append(p)
        else:
            decay.append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]


def pairs(seed):
    rng = np.random.default_rng(seed)
    while True:
        u = rng.standard_normal((BATCH, 2))
        img = 0.3 * rng.standard_normal((BATCH, 4, 12, 12)) + u[:, :1, None, None]
        ts = 0.3 * rng.standard_normal((BATCH, 5, 24)) + u[:, 1:, None] * np.sin(np.arange(24) / 4)
        ts[:, 0] += u[:, :1]
        yield torch.from_numpy(img.astype(np.float32)), torch.from_numpy(ts.astype(np.float32))


def train(steps=6):
    torch.manual_seed(31)
    device = torch_xla.device()
    model = Matcher().to(device)
    opt = torch.optim.AdamW(param_groups(model, 0.1), lr=1e-3, betas=(0.9, 0.98), eps=1e-6)
    target = torch.arange(BATCH).to(device)

    losses = []
    stream = pairs(8)
    for _ in range(steps):
        img, ts = (t.to(device) for t in next(stream))
        logits = model(img, ts)
        loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=MAX_SCALE)
        torch_xla.sync()
        losses.append(loss.detach())
    print(" ".join(f"{l.item():.6f}" for l in losses))


if __name__ == "__main__":
    train()
