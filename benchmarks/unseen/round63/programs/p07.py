# Value network for endgame positions (residual tower, AlphaZero-like planes).
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PIECES = 6
VALUES = np.array([0.0, 9.0, 5.0, 3.1, 3.0, 1.0], dtype=np.float32)


def random_position(rng):
    planes = np.zeros((2 * PIECES + 1, 8, 8), np.float32)
    squares = rng.permutation(64)
    k = 0
    material = 0.0
    for side, sign in ((0, 1.0), (1, -1.0)):
        roster = [0] + list(rng.integers(1, PIECES, rng.integers(1, 6)))
        for p in roster:
            r, c = divmod(int(squares[k]), 8)
            k += 1
            planes[side * PIECES + p, r, c] = 1.0
            centre = 0.05 * (3.5 - max(abs(r - 3.5), abs(c - 3.5)))
            material += sign * (VALUES[p] + centre)
    planes[-1] = rng.integers(0, 2)
    return planes, np.tanh(material / 6.0, dtype=np.float32)


class PositionBuffer:
    def __init__(self, capacity, seed):
        self.rng = np.random.default_rng(seed)
        data = [random_position(self.rng) for _ in range(capacity)]
        self.x = np.stack([d[0] for d in data])
        self.v = np.array([d[1] for d in data], dtype=np.float32)

    def sample(self, n):
        idx = self.rng.integers(0, len(self.v), n)
        x, v = self.x[idx], self.v[idx]
        mirror = self.rng.random(n) < 0.5
        x = np.where(mirror[:, None, None, None], x[..., ::-1], x)
        return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(v)


class SqueezeExcite(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.fc1 = nn.Linear(ch, ch // 2)
        self.fc2 = nn.Linear(ch // 2, 2 * ch)

    def forward(self, x):
        s = self.fc2(F.relu(self.fc1(x.mean((2, 3)))))
        w, b = s.chunk(2, dim=1)
        return torch.sigmoid(w)[..., None, None] * x + b[..., None, None]


class Block(nn.Module):
    def __init__(self, ch, drop_path):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(4, ch), nn.GroupNorm(4, ch)
        self.se = SqueezeExcite(ch)
        self.drop_path = drop_path

    def residual(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return self.se(self.norm2(self.conv2(y)))

    def forward(self, x):
        keep = 1.0 - self.drop_path
        if self.training:
            if random.random() > keep:
                return x
            return F.relu(x + self.residual(x) / keep)
        return F.relu(x + self.residual(x))


class ValueNet(nn.Module):
    def __init__(self, ch=12, blocks=6, drop_path=0.4):
        super().__init__()
        self.stem = nn.Conv2d(2 * PIECES + 1, ch, 3, padding=1)
        rates = np.linspace(0.1, drop_path, blocks)
        self.tower = nn.ModuleList(Block(ch, float(r)) for r in rates)
        self.head = nn.Sequential(nn.Conv2d(ch, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 24), nn.ReLU(),
                                  nn.Linear(24, 1), nn.Tanh())

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.tower:
            x = block(x)
        return self.head(x).squeeze(-1)


@torch.no_grad()
def evaluate(net, planes, values):
    net.eval()
    err = F.mse_loss(net(planes), values)
    xm.mark_step()
    net.train()
    return err.item()


def main(steps=44, batch=12):
    random.seed(4)
    torch.manual_seed(4)
    dev = xm.xla_device()
    buf = PositionBuffer(600, 4)
    held_x, held_v = (t.to(dev) for t in PositionBuffer(32, 99).sample(32))
    net = ValueNet().to(dev)
    decay = [p for p in net.parameters() if p.ndim > 1]
    rest = [p for p in net.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0.0}],
                          lr=0.02, momentum=0.9)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    tracked = torch.zeros((), device=dev)
    for step in range(1, steps + 1):
        x, v = buf.sample(batch)
        x, v = x.to(dev), v.to(dev)
        opt.zero_grad(set_to_none=False)
        loss = F.mse_loss(net(x), v)
        loss.backward()
        xm.optimizer_step(opt)
        tracked = tracked * 0.9 + loss.detach() * 0.1
        xm.mark_step()
        if step % 11 == 0:
            xm.master_print(f"{step} train {tracked.item():.4f} held-out {evaluate(net, held_x, held_v):.4f}")


if __name__ == "__main__":
    main()
