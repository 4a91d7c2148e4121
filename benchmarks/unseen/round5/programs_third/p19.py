"""Time-series forecasting with accelerate: accumulation, averaged weights, validation."""
import os
from dataclasses import dataclass

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MetricCollection
from torchmetrics.regression import MeanSquaredError


@dataclass
class ForecastConfig:
    context: int = 48
    horizon: int = 12
    channels: int = 24
    batch: int = 16
    accumulate: int = 2
    epochs: int = 6
    train_series: int = 512
    valid_series: int = 64
    average_from: int = 1
    lr: float = 2e-3
    clip: float = 1.0


class TCNBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c, 2 * c, 3, dilation=dilation)
        self.out = nn.Conv1d(c, c, 1)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Conv1d(1, cfg.channels, 1)
        self.blocks = nn.Sequential(*[TCNBlock(cfg.channels, d) for d in (1, 2, 4)])
        self.head = nn.Linear(cfg.channels, cfg.horizon)

    def forward(self, x):
        level = x.mean(dim=1, keepdim=True)
        h = self.blocks(self.inp((x - level)[:, None]))
        return self.head(h[:, :, -1]) + level


def series(n, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(cfg.context + cfg.horizon).float()
    period = 6 + 18 * torch.rand(n, 1, generator=g)
    phase = 6.28 * torch.rand(n, 1, generator=g)
    x = torch.sin(6.28 * t / period + phase) + 0.02 * t * torch.randn(n, 1, generator=g)
    x = x + 0.1 * torch.randn(x.shape, generator=g)
    return TensorDataset(x[:, :cfg.context], x[:, cfg.context:])


@torch.no_grad()
def validate(model, loader, metrics, device):
    model.eval()
    metrics.reset()
    for x, y in loader:
        pred = model(x)
        metrics.update(pred.contiguous(), y.contiguous())
    torch_xla.sync()
    return {k: v.item() for k, v in metrics.compute().items()}


def main(cfg=ForecastConfig()):
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=cfg.accumulate)
    model = Forecaster(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    train = DataLoader(series(cfg.train_series, cfg, 1), batch_size=cfg.batch, shuffle=True,
                       drop_last=True)
    valid = DataLoader(series(cfg.valid_series, cfg, 2), batch_size=cfg.batch, drop_last=True)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    metrics = MetricCollection({"mae": MeanAbsoluteError(), "mse": MeanSquaredError()})
    metrics = metrics.to(accelerator.device)
    for epoch in range(cfg.epochs):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                loss = F.huber_loss(model(x), y, delta=0.5)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), cfg.clip)
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients and epoch >= cfg.average_from:
                averaged.update_parameters(model)
        torch_xla.sync()
        raw = validate(model, valid, metrics, accelerator.device)
        line = f"epoch {epoch} loss {loss.item():.4f} mae {raw['mae']:.4f} mse {raw['mse']:.4f}"
        if epoch >= cfg.average_from:
            ema = validate(averaged, valid, metrics, accelerator.device)
            line += f" | averaged mae {ema['mae']:.4f}"
        accelerator.print(line, flush=True)


if __name__ == "__main__":
    main()
