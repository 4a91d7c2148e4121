"""Beat classification on two-lead ECG windows (synthetic MIT-BIH style data)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ("N", "S", "V", "F")
WINDOW = 256


def synth_beat(rng, label):
    t = np.linspace(-0.5, 0.5, WINDOW)
    width = {0: 0.012, 1: 0.010, 2: 0.045, 3: 0.028}[label]
    amp = rng.normal(1.0, 0.15)
    qrs = amp * np.exp(-(t / width) ** 2)
    p_wave = 0.0 if label == 2 else 0.15 * np.exp(-((t + 0.18 - 0.05 * (label == 1)) / 0.03) ** 2)
    t_wave = (0.3 if label != 2 else -0.35) * np.exp(-((t - 0.25) / 0.06) ** 2)
    wander = 0.1 * np.sin(2 * math.pi * (t * rng.uniform(0.2, 0.6) + rng.uniform()))
    lead1 = qrs + p_wave + t_wave + wander + rng.normal(0, 0.03, WINDOW)
    lead2 = 0.6 * qrs - 0.4 * t_wave + wander + rng.normal(0, 0.03, WINDOW)
    return np.stack([lead1, lead2]).astype(np.float32)


def build_dataset(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(4, size=n, p=[0.55, 0.15, 0.2, 0.1])
    beats = np.stack([synth_beat(rng, int(y)) for y in labels])
    return TensorDataset(torch.from_numpy(beats), torch.from_numpy(labels.astype(np.int64)))


def norm(channels):
    # long averages: the patient mix drifts slowly over a recording
    return nn.BatchNorm1d(channels, momentum=None)


class ResidualUnit(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False)
        self.norm1 = norm(cout)
        self.conv2 = nn.Conv1d(cout, cout, 7, padding=3, bias=False)
        self.norm2 = norm(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.skip(x))


class BeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(2, 16, 11, stride=2, padding=5)
        self.unit = ResidualUnit(16, 24, 4)
        self.fc = nn.Linear(24, len(CLASSES))

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.unit(x)
        return self.fc(x.mean(dim=-1))


def class_weights(ds):
    counts = torch.bincount(ds.tensors[1], minlength=4).float()
    return (counts.sum() / (4 * counts)).clamp(max=3.0)


def main():
    torch.manual_seed(11)
    device = xm.xla_device()
    train = build_dataset(512, seed=1)
    loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
    model = BeatNet().to(device)
    weights = class_weights(train).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(2):
        model.train()
        total = torch.zeros((), device=device)
        for beats, labels in loader:
            beats, labels = beats.to(device), labels.to(device)
            optimizer.zero_grad(set_to_none=True)
            logits = model(beats)
            loss = F.cross_entropy(logits, labels, weight=weights, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            torch_xla.sync()
        print(f"epoch {epoch}  train loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
