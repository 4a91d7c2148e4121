"""Stress detection from a wearable: six signal streams, late fusion, robust to missing streams."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 17
STREAMS = {"acc": 3, "gyro": 3, "ecg": 1, "eda": 1, "temp": 1, "resp": 1}
LENGTH = 64
CLASSES = 4
DIM = 24
BATCH = 16
STEPS = 24
REPORT = 4


class StreamEncoder(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(channels, DIM, 9, stride=4, padding=4), nn.ReLU())
        self.proj = nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        h = self.net(x)
        return self.proj(torch.cat([h.mean(2), h.amax(2)], 1))


class FusionNet(nn.Module):
    def __init__(self, miss_rate=0.3):
        super().__init__()
        self.encoders = nn.ModuleDict({k: StreamEncoder(c) for k, c in STREAMS.items()})
        self.miss_rate = miss_rate
        self.query = nn.Parameter(torch.randn(DIM) * 0.1)
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.SiLU(),
                                  nn.Linear(DIM, CLASSES))

    def available(self):
        names = list(self.encoders)
        if not self.training:
            return names
        kept = [n for n in names if random.random() >= self.miss_rate]
        return kept or [random.choice(names)]

    def forward(self, signals):
        tokens = [self.encoders[n](signals[n]) for n in self.available()]
        tokens = torch.stack(tokens, 1)
        attn = (tokens @ self.query / DIM ** 0.5).softmax(1)
        return self.head((attn.unsqueeze(-1) * tokens).sum(1))


class Cohort:
    """Synthetic subjects; class changes rate and level of the streams."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.linspace(0, 6.28, LENGTH)

    def batch(self, n):
        y = torch.randint(0, CLASSES, (n,), generator=self.g)
        out = {}
        for i, (name, channels) in enumerate(STREAMS.items()):
            rate = 1 + 0.7 * y.float().view(n, 1, 1) + 0.3 * i
            phase = 6.28 * torch.rand(n, channels, 1, generator=self.g)
            wave = torch.sin(rate * self.t + phase)
            out[name] = wave + 0.3 * torch.randn(n, channels, LENGTH, generator=self.g)
        return out, y


class Journal:
    """Keeps what the progress line shows; values stay on the device until printed."""

    def __init__(self):
        self.rows = {}

    def log(self, **values):
        for key, v in values.items():
            self.rows.setdefault(key, []).append(v.detach())

    def summary(self):
        return {k: torch.stack(v).mean().item() for k, v in self.rows.items()}


def to_device(signals, y, device):
    return {k: v.to(device) for k, v in signals.items()}, y.to(device)


@torch.no_grad()
def validate(model, cohort, device, n_batches=3):
    model.eval()
    hits = torch.zeros((), device=device)
    for _ in range(n_batches):
        signals, y = to_device(*cohort.batch(BATCH), device)
        hits += (model(signals).argmax(1) == y).float().mean()
        torch_xla.sync()
    model.train()
    return hits.item() / n_batches


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    model = FusionNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=6e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    train, held_out = Cohort(SEED), Cohort(SEED + 1)
    journal = Journal()
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        signals, y = to_device(*train.batch(BATCH), device)
        logits = model(signals)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        journal.log(loss=loss, acc=(logits.argmax(1) == y).float().mean())
        torch_xla.sync()

        if step % REPORT == 0:
            s = journal.summary()
            print(f"step {step:3d} loss {s['loss']:.4f} acc {s['acc']:.3f}")
        if step % 12 == 0:
            print(f"  held out acc {validate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
