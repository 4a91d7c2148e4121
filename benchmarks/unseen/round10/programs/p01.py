"""Keyword spotting on log-mel features, trained with SpecAugment."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_MELS, N_FRAMES, N_CLASSES = 40, 64, 12


class SpecAugment(nn.Module):
    def __init__(self, freq_width=12, time_width=20, n_freq=1, n_time=1):
        super().__init__()
        self.freq_width, self.time_width = freq_width, time_width
        self.n_freq, self.n_time = n_freq, n_time

    def forward(self, spec):
        if not self.training:
            return spec
        spec = spec.clone()
        for _ in range(self.n_freq):
            width = random.randint(1, self.freq_width)
            start = random.randint(0, spec.size(1) - width)
            spec[:, start:start + width, :] = 0.0
        for _ in range(self.n_time):
            width = random.randint(1, self.time_width)
            start = random.randint(0, spec.size(2) - width)
            spec[:, :, start:start + width] = 0.0
        return spec


class SeparableBlock(nn.Module):
    def __init__(self, c_in, c_out, kernel):
        super().__init__()
        self.depth = nn.Conv1d(c_in, c_in, kernel, padding=kernel // 2, groups=c_in)
        self.point = nn.Conv1d(c_in, c_out, 1)
        self.norm = nn.BatchNorm1d(c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x):
        return F.relu(self.norm(self.point(self.depth(x))) + self.skip(x))


class KeywordNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.augment = SpecAugment()
        self.stem = nn.Conv1d(N_MELS, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(
            SeparableBlock(width, width, 5),
            SeparableBlock(width, width * 2, 7),
        )
        self.head = nn.Linear(width * 2, N_CLASSES)

    def forward(self, spec):
        x = self.augment(spec)
        x = F.relu(self.stem(x))
        x = self.blocks(x).mean(dim=-1)
        return self.head(x)


class SyntheticCommands(torch.utils.data.Dataset):
    def __init__(self, n=224, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, N_CLASSES, n)
        base = rng.normal(size=(N_CLASSES, N_MELS, 1))
        self.specs = (base[self.labels] + rng.normal(size=(n, N_MELS, N_FRAMES))).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.specs[i]), int(self.labels[i])


def main():
    random.seed(7)
    torch.manual_seed(7)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(SyntheticCommands(), batch_size=32, shuffle=True, drop_last=True)
    model = KeywordNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    for epoch in range(2):
        model.train()
        for spec, label in loader:
            spec, label = spec.to(device), label.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(spec), label)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            step += 1


if __name__ == "__main__":
    main()
