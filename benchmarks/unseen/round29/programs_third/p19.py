#!/usr/bin/env python
"""Probabilistic forecasting of synthetic electricity load with the HF time series transformer."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader
from transformers import TimeSeriesTransformerConfig, TimeSeriesTransformerForPrediction, set_seed

PREDICTION = 6
CONTEXT = 12
LAGS = [1, 2, 6]
HISTORY = CONTEXT + max(LAGS)


class LoadSeries(Dataset):
    """windows cut at random from households with daily and weekly patterns"""

    def __init__(self, households=12, hours=300, windows=192, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(hours)
        level = rng.uniform(1.0, 4.0, (households, 1))
        daily = np.sin(2 * np.pi * (t / 24 + rng.uniform(0, 1, (households, 1))))
        weekly = np.sin(2 * np.pi * (t / 168 + rng.uniform(0, 1, (households, 1))))
        noise = rng.normal(0, 0.1, (households, hours))
        self.values = (level * (1 + 0.4 * daily + 0.2 * weekly) + noise).astype(np.float32)
        self.clock = np.stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24)], 1).astype(np.float32)
        self.starts = rng.integers(0, hours - HISTORY - PREDICTION, windows)
        self.who = rng.integers(0, households, windows)
        self.observed = (rng.random((windows, HISTORY)) > 0.05).astype(np.float32)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s, w = self.starts[i], self.who[i]
        past, future = slice(s, s + HISTORY), slice(s + HISTORY, s + HISTORY + PREDICTION)
        return {
            "past_values": self.values[w, past] * self.observed[i],
            "past_observed_mask": self.observed[i],
            "past_time_features": self.clock[past],
            "future_values": self.values[w, future],
            "future_time_features": self.clock[future],
            "static_categorical_features": np.array([w]),
        }


def build_model():
    config = TimeSeriesTransformerConfig(
        prediction_length=PREDICTION,
        context_length=CONTEXT,
        distribution_output="normal",
        lags_sequence=LAGS,
        scaling="std",
        num_time_features=2,
        num_static_categorical_features=1,
        cardinality=[12],
        embedding_dimension=[3],
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        dropout=0.0,
    )
    return TimeSeriesTransformerForPrediction(config)


def main(epochs=3, batch_size=16, lr=2e-3):
    set_seed(42)
    device = xm.xla_device()
    train = MpDeviceLoader(DataLoader(LoadSeries(), batch_size=batch_size, shuffle=True, drop_last=True), device)
    model = build_model().to(device)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    torch_xla.sync()

    for epoch in range(epochs):
        total, steps = torch.zeros((), device=device), 0
        for batch in train:
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            xm.optimizer_step(optimizer)
            total += loss.detach()
            steps += 1
        print(f"epoch {epoch}: nll {total.item() / steps:.4f}")


if __name__ == "__main__":
    main()
