import math
import random

import torch
import torch.nn as nn
import torch_xla

HISTORY, HORIZON, HID, BATCH = 4, 6, 16, 16
ITERS = 26


def synthetic_load(n=1500):
    t = torch.arange(n).float()
    daily = torch.sin(2 * math.pi * t / 24)
    weekly = 0.5 * torch.sin(2 * math.pi * t / 168 + 1.0)
    temp = torch.cos(2 * math.pi * t / 24 + 0.3) + 0.1 * torch.randn(n)
    load = daily + weekly + 0.3 * temp + 0.05 * torch.randn(n)
    return torch.stack([load, temp], dim=1)


def sample_windows(series, batch):
    starts = torch.randint(0, len(series) - HISTORY - HORIZON, (batch,))
    w = torch.stack([series[s:s + HISTORY + HORIZON] for s in starts.tolist()])
    return w[:, :HISTORY], w[:, HISTORY:]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, HID)

    def forward(self, x):
        h = torch.zeros(x.size(0), HID, device=x.device)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return h


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, HID)
        self.out = nn.Linear(HID, 1)

    def forward(self, last, h, future, teacher_forcing_ratio=0.0):
        # future: [B, H, 2] with the target load and the (known) temperature forecast
        inp = last
        preds = []
        for t in range(HORIZON):
            h = self.cell(torch.cat([inp, future[:, t, 1:]], dim=1), h)
            y = self.out(h)
            preds.append(y)
            teacher_force = random.random() < teacher_forcing_ratio
            inp = future[:, t, :1] if teacher_force else y
        return torch.cat(preds, dim=1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, past, future, ratio=0.0):
        h = self.encoder(past)
        return self.decoder(past[:, -1, :1], h, future, ratio)


def inverse_sigmoid(step, k=6.5):
    return k / (k + math.exp(step / k))


def train():
    torch.manual_seed(1)
    random.seed(1)
    dev = torch_xla.device()
    series = synthetic_load()
    model = Seq2Seq().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    ema = None
    for step in range(ITERS):
        past, future = sample_windows(series, BATCH)
        past, future = past.to(dev), future.to(dev)
        with torch_xla.step():
            opt.zero_grad()
            pred = model(past, future, inverse_sigmoid(step))
            loss = torch.mean((pred - future[:, :, 0]) ** 2)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        value = loss.item()
        ema = value if ema is None else 0.9 * ema + 0.1 * value
        if step % 10 == 9:
            print(f"iter {step + 1} mse {ema:.4f} tf {inverse_sigmoid(step):.2f}")

    model.eval()
    total = 0.0
    for _ in range(6):
        past, future = sample_windows(series, BATCH)
        with torch.no_grad(), torch_xla.step():
            future = future.to(dev)
            err = (model(past.to(dev), future) - future[:, :, 0]).abs().mean()
        total += err.item()
    print(f"test mae {total / 6:.4f}")


if __name__ == "__main__":
    train()
