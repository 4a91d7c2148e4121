"""Recurrent encoder-decoder with attention for multi-step electricity load forecasting."""
import math
import random
from typing import Iterator, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONTEXT, HORIZON, COVARIATES = 24, 7, 3


def synth_load(num_series: int, length: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    level = rng.uniform(0.5, 2.0, size=(num_series, 1))
    phase = rng.uniform(0, 2 * np.pi, size=(num_series, 1))
    daily = np.sin(2 * np.pi * t / 24 + phase)
    weekly = 0.4 * np.sin(2 * np.pi * t / 168 + phase)
    noise = rng.normal(0, 0.1, size=(num_series, length)).cumsum(axis=1) * 0.05
    return (level * (1 + 0.5 * daily + weekly) + noise).astype(np.float32)


def calendar(index: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(2 * np.pi * index / 24), np.cos(2 * np.pi * index / 24),
                     (index // 24 % 7 >= 5).astype(np.float64)], axis=-1).astype(np.float32)


def windows(load: np.ndarray, batch_size: int, seed: int) -> Iterator[Tuple[torch.Tensor, ...]]:
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(0, load.shape[0], size=batch_size)
        start = rng.integers(0, load.shape[1] - CONTEXT - HORIZON, size=batch_size)
        index = start[:, None] + np.arange(CONTEXT + HORIZON)[None]
        values = load[rows[:, None], index]
        scale = np.abs(values[:, :CONTEXT]).mean(axis=1, keepdims=True) + 1e-3
        values = torch.from_numpy(values / scale)
        covs = torch.from_numpy(calendar(index))
        yield values[:, :CONTEXT], covs[:, :CONTEXT], values[:, CONTEXT:], covs[:, CONTEXT:]


class DotAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)

    def forward(self, h: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        score = torch.bmm(memory, self.query(h).unsqueeze(2)).squeeze(2) / math.sqrt(h.size(1))
        return torch.bmm(score.softmax(dim=1).unsqueeze(1), memory).squeeze(1)


class Forecaster(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv1d(1 + COVARIATES, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=4, dilation=2), nn.GELU(),
        )
        self.bridge = nn.Linear(width, width)
        self.cell = nn.GRUCell(1 + COVARIATES + width, width)
        self.attend = DotAttention(width)
        self.readout = nn.Linear(2 * width, 2)

    def forward(self, past, past_cov, future_cov, future=None, teacher_forcing=0.0):
        memory = self.encode(torch.cat([past.unsqueeze(2), past_cov], dim=2).transpose(1, 2)).transpose(1, 2)
        h = torch.tanh(self.bridge(memory[:, -1]))
        y = past[:, -1]
        means, log_scales = [], []
        for t in range(HORIZON):
            context = self.attend(h, memory)
            h = self.cell(torch.cat([y.unsqueeze(1), future_cov[:, t], context], dim=1), h)
            mean, log_scale = self.readout(torch.cat([h, context], dim=1)).unbind(dim=1)
            means.append(mean)
            log_scales.append(log_scale.clamp(-5.0, 3.0))
            if future is not None and random.random() < teacher_forcing:
                y = future[:, t]
            else:
                y = mean
        return torch.stack(means, dim=1), torch.stack(log_scales, dim=1)


def gaussian_nll(mean, log_scale, y):
    return (log_scale + 0.5 * ((y - mean) * torch.exp(-log_scale)) ** 2).mean()


def inverse_sigmoid_decay(step: int, k: float = 10.0) -> float:
    return k / (k + math.exp(step / k))


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    load = synth_load(num_series=20, length=24 * 28, seed=1)
    stream = windows(load, batch_size=32, seed=2)
    held_out = [t.to(device) for t in next(windows(load, batch_size=64, seed=77))]

    model = Forecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    running = 0.0
    for step in range(1, 21):
        past, past_cov, future, future_cov = (t.to(device) for t in next(stream))
        optimizer.zero_grad()
        mean, log_scale = model(past, past_cov, future_cov, future, inverse_sigmoid_decay(step))
        loss = gaussian_nll(mean, log_scale, future)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.detach()
        xm.mark_step()

        if step % 5 == 0:
            with torch.no_grad():
                mean, _ = model(held_out[0], held_out[1], held_out[3])
                mae = F.l1_loss(mean, held_out[2])
            xm.mark_step()
            print(f"step {step:3d}  nll {running.item():.4f}  held-out mae {mae.item():.4f}")


if __name__ == "__main__":
    main()
