"""Electricity load forecasting with accelerate: gradient accumulation and a separate validation pass."""
import math

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

config = {
    "context": 48,
    "horizon": 12,
    "channels": 3,
    "hidden": 32,
    "micro_batch": 8,
    "accumulate": 4,
    "epochs": 3,
    "lr": 4e-3,
    "max_norm": 1.0,
    "quantiles": (0.1, 0.5, 0.9),
    "seed": 7,
}


class LoadWindows(Dataset):
    def __init__(self, cfg, n, seed):
        g = torch.Generator().manual_seed(seed)
        length = cfg["context"] + cfg["horizon"]
        t = torch.arange(length).float() + torch.randint(0, 168, (n, 1), generator=g)
        daily = torch.sin(2 * math.pi * t / 24)
        weekly = torch.sin(2 * math.pi * t / 168)
        load = daily + 0.5 * weekly + 0.1 * torch.randn(n, length, generator=g)
        self.past = torch.stack([load, daily, weekly], -1)[:, :cfg["context"]]
        self.future = load[:, cfg["context"]:]

    def __len__(self):
        return len(self.past)

    def __getitem__(self, i):
        return {"past": self.past[i], "future": self.future[i]}


class GatedBlock(nn.Module):
    def __init__(self, d, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(d, 2 * d, 3, dilation=dilation)
        self.mix = nn.Conv1d(d, d, 1)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.nq, self.h = len(cfg["quantiles"]), cfg["horizon"]
        self.inp = nn.Conv1d(cfg["channels"], cfg["hidden"], 1)
        self.blocks = nn.Sequential(*[GatedBlock(cfg["hidden"], 2 ** i) for i in range(4)])
        self.out = nn.Linear(cfg["hidden"], self.h * self.nq)

    def forward(self, past):
        x = self.blocks(self.inp(past.transpose(1, 2)))
        return self.out(x[:, :, -1]).view(-1, self.h, self.nq)


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target):
        diff = target.unsqueeze(-1) - pred
        return torch.maximum(self.q * diff, (self.q - 1) * diff).mean()


def validate(accelerator, model, loader, criterion):
    model.eval()
    total = []
    for batch in loader:
        with torch.no_grad():
            loss = criterion(model(batch["past"]), batch["future"])
        total.append(accelerator.gather_for_metrics(loss.detach().reshape(1)).cpu())
    model.train()
    return torch.cat(total).mean().item()


def main():
    set_seed(config["seed"])
    accelerator = Accelerator(gradient_accumulation_steps=config["accumulate"])
    model = Forecaster(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=1e-3)
    train = DataLoader(LoadWindows(config, 96, 0), batch_size=config["micro_batch"], shuffle=True, drop_last=True)
    valid = DataLoader(LoadWindows(config, 32, 1), batch_size=config["micro_batch"], drop_last=True)
    updates = config["epochs"] * math.ceil(len(train) / config["accumulate"])
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, config["lr"], total_steps=updates + 1)
    model, optimizer, train, valid, scheduler = accelerator.prepare(model, optimizer, train, valid, scheduler)
    criterion = PinballLoss(config["quantiles"]).to(accelerator.device)

    for epoch in range(config["epochs"]):
        for i, batch in enumerate(train):
            with accelerator.accumulate(model):
                loss = criterion(model(batch["past"]), batch["future"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), config["max_norm"])
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} train {loss.item():.4f} "
              f"valid {validate(accelerator, model, valid, criterion):.4f}")


if __name__ == "__main__":
    main()
