"""Site-adaptive training of a wearable activity recogniser.

A small 1D conv net is trained on accelerometer windows that arrive from one
wearer after the other.  A proximal term keeps the fast weights close to a
slowly moving average so that a new wearer does not wipe out the earlier ones.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ActivityNet(nn.Module):
    def __init__(self, channels=3, width=16, classes=6):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 7, stride=2, padding=3)
        self.norm = nn.GroupNorm(4, width)
        self.body = nn.Conv1d(width, 2 * width, 5, stride=2, padding=2)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.gelu(self.norm(self.stem(x)))
        x = F.gelu(self.body(x))
        return self.head(x.mean(dim=-1))


class SlowWeights:
    """Exponentially averaged copy of the parameters, used as an anchor."""

    def __init__(self, model, rate):
        self.rate = rate
        self.names = [n for n, p in model.named_parameters() if p.requires_grad]
        self.avg = {
            n: p.detach().clone()
            for n, p in model.named_parameters() if p.requires_grad
        }

    def update(self, model):
        params = dict(model.named_parameters())
        for name in self.names:
            self.avg[name] = torch.lerp(self.avg[name], params[name], self.rate)

    def distance(self, model):
        params = dict(model.named_parameters())
        total = 0.0
        for name in self.names:
            total = total + (params[name] - self.avg[name]).square().sum()
        return total

    def export(self):
        return {n: t.detach().cpu() for n, t in self.avg.items()}


class WearerStream:
    """Synthetic windows; every wearer has a gain, an offset and a cadence."""

    def __init__(self, seed, window=64, batch=16, classes=6):
        self.rng = np.random.default_rng(seed)
        self.window = window
        self.batch = batch
        self.classes = classes
        self.next_wearer()

    def next_wearer(self):
        self.gain = self.rng.uniform(0.6, 1.4, size=(1, 3, 1))
        self.offset = self.rng.normal(0.0, 0.3, size=(1, 3, 1))
        self.cadence = self.rng.uniform(0.8, 1.2)

    def draw(self):
        y = self.rng.integers(0, self.classes, size=self.batch)
        t = np.linspace(0.0, 2 * np.pi, self.window)[None, None, :]
        freq = (1 + y)[:, None, None] * self.cadence
        phase = self.rng.uniform(0, np.pi, size=(self.batch, 3, 1))
        x = np.sin(freq * t + phase) * self.gain + self.offset
        x = x + 0.1 * self.rng.normal(size=x.shape)
        return (torch.from_numpy(x.astype(np.float32)),
                torch.from_numpy(y.astype(np.int64)))


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--wearers", type=int, default=4)
    ap.add_argument("--steps-per-wearer", type=int, default=4)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--prox", type=float, default=0.02)
    ap.add_argument("--slow-rate", type=float, default=0.05)
    return ap.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(11)
    device = xm.xla_device()

    model = ActivityNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    slow = SlowWeights(model, args.slow_rate)
    stream = WearerStream(seed=5)
    torch_xla.sync()

    step = 0
    for wearer in range(args.wearers):
        if wearer:
            stream.next_wearer()
        model.train()
        for _ in range(args.steps_per_wearer):
            x, y = stream.draw()
            x, y = x.to(device), y.to(device)

            optimizer.zero_grad(set_to_none=True)
            logits = model(x)
            task_loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            loss = task_loss + args.prox * slow.distance(model)
            loss.backward()
            optimizer.step()
            slow.update(model)
            torch_xla.sync()
            step += 1

        print(f"wearer {wearer} step {step:3d} loss {task_loss.item():.4f}")

    weights = slow.export()
    print("slow weight norm",
          round(sum(float(w.norm()) for w in weights.values()), 4))


if __name__ == "__main__":
    main()
