# keyword spotting on synthetic tones; waveform front end runs on the device
import random

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CFG = dict(
    sr=800,
    seconds=0.25,
    n_classes=6,
    n_fft=32,
    hidden=24,
    batch=10,
    epochs=2,
    items=100,
    max_shift=0.1,
    lr=3e-3,
    log_every=3,
)


class Tones(Dataset):
    def __init__(self, n, cfg, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(int(cfg["sr"] * cfg["seconds"])) / cfg["sr"]
        self.y = rng.integers(0, cfg["n_classes"], n)
        f = 40 + 50 * self.y[:, None]
        phase = rng.uniform(0, 2 * np.pi, (n, 1))
        wav = np.sin(2 * np.pi * f * t[None] + phase)
        self.x = (wav + 0.5 * rng.standard_normal(wav.shape)).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class Augment(nn.Module):
    """Gain and time shift, applied to a whole batch of waveforms."""

    def __init__(self, cfg):
        super().__init__()
        self.limit = int(cfg["max_shift"] * cfg["sr"])

    def forward(self, wav):
        if not self.training:
            return wav
        gain = torch.empty(wav.shape[0], 1, device=wav.device).uniform_(0.7, 1.3)
        offset = random.randint(-self.limit, self.limit)
        return torch.roll(wav * gain, shifts=offset, dims=-1)


class FrontEnd(nn.Module):
    """Log power spectrogram of non-overlapping frames, with a fixed DFT basis."""

    def __init__(self, cfg):
        super().__init__()
        n = cfg["n_fft"]
        k = np.arange(n)[:, None] * np.arange(n // 2 + 1)[None] * 2 * np.pi / n
        basis = np.concatenate([np.cos(k), np.sin(k)], axis=1) * np.hanning(n)[:, None]
        self.register_buffer("basis", torch.tensor(basis, dtype=torch.float32))
        self.n = n

    def forward(self, wav):
        frames = wav[:, : wav.shape[1] // self.n * self.n].reshape(wav.shape[0], -1, self.n)
        re, im = (frames @ self.basis).chunk(2, dim=-1)
        return torch.log1p(re ** 2 + im ** 2)


class Spotter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        bins = cfg["n_fft"] // 2 + 1
        self.augment = Augment(cfg)
        self.front = FrontEnd(cfg)
        self.proj = nn.Linear(bins, cfg["hidden"])
        self.norm = nn.LayerNorm(cfg["hidden"])
        self.head = nn.Linear(cfg["hidden"], cfg["n_classes"])

    def forward(self, wav):
        h = torch.relu(self.proj(self.front(self.augment(wav))))
        return self.head(self.norm(h.mean(1)))


class Meter:
    def __init__(self):
        self.values = []

    def add(self, v):
        self.values.append(v.detach())

    @property
    def average(self):
        return torch.stack(self.values).mean()


def train(cfg):
    random.seed(1)
    torch.manual_seed(1)
    device = torch_xla.device()
    loader = DataLoader(Tones(cfg["items"], cfg), batch_size=cfg["batch"], shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Spotter(cfg).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    criterion = nn.CrossEntropyLoss()

    losses, accs = Meter(), Meter()
    step = 0
    for epoch in range(cfg["epochs"]):
        for wav, label in loader:
            optimizer.zero_grad()
            logits = model(wav)
            loss = criterion(logits, label)
            loss.backward()
            xm.optimizer_step(optimizer)
            losses.add(loss)
            accs.add((logits.argmax(-1) == label).float().mean())
            step += 1
            if step % cfg["log_every"] == 0:
                xm.add_step_closure(
                    lambda s, l, a: print(f"step {s} loss {l.item():.3f} acc {a.item():.3f}"),
                    args=(step, losses.average, accs.average))
        print("epoch", epoch, "done")


if __name__ == "__main__":
    train(CFG)
