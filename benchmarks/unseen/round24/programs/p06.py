# Load forecasting: conv encoder, quantile heads. One csv-like series, sliding windows.
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl

QUANTILES = (0.1, 0.5, 0.9)
CONTEXT, HORIZON = 24, 6


def make_series(hours=1100, seed=5):
    rng = np.random.default_rng(seed)
    idx = pd.date_range("2021-01-01", periods=hours, freq="h")
    load = 10 + 3 * np.sin(2 * np.pi * idx.hour / 24) - 1.5 * (idx.dayofweek >= 5)
    load = load + np.cumsum(rng.normal(0, 0.05, hours)) + rng.normal(0, 0.4, hours)
    df = pd.DataFrame({"load": load, "hour": idx.hour / 23.0, "dow": idx.dayofweek / 6.0}, index=idx)
    df["load"] = (df["load"] - df["load"].mean()) / df["load"].std()
    return df.astype("float32")


class Windows(torch.utils.data.Dataset):
    def __init__(self, df):
        self.v = torch.from_numpy(df.to_numpy())

    def __len__(self):
        return len(self.v) - CONTEXT - HORIZON

    def __getitem__(self, i):
        past = self.v[i:i + CONTEXT]
        fut = self.v[i + CONTEXT:i + CONTEXT + HORIZON]
        return past, fut[:, 1:], fut[:, 0]


class Encoder(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.conv = nn.Conv1d(3, d, 5, stride=2)
        self.mix = nn.Conv1d(d, d, 5, stride=2)

    def forward(self, past):
        h = torch.relu(self.conv(past.transpose(1, 2)))
        return torch.relu(self.mix(h)).flatten(1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.dec = nn.Sequential(
            nn.LazyLinear(48), nn.ReLU(), nn.Linear(48, HORIZON * len(QUANTILES)))

    def forward(self, past, cal):
        z = torch.cat([self.enc(past), cal.flatten(1)], 1)
        return self.dec(z).view(-1, HORIZON, len(QUANTILES))


def pinball(pred, target):
    q = torch.tensor(QUANTILES, device=pred.device)
    err = target.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


class Trainer:
    def __init__(self, model, opt, device, log_interval=6):
        self.model, self.opt, self.device = model, opt, device
        self.log_interval = log_interval
        self.history = []
        self.step = 0

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            self.history.append([])
            for past, cal, y in loader:
                loss = pinball(self.model(past, cal), y)
                self.opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.history[-1].append(loss.detach())
                self.step += 1
                if self.step % self.log_interval == 0:
                    self.report(epoch)

    def report(self, epoch):
        flat = [v for ep in self.history for v in ep]
        avg = torch.stack(flat).mean()
        epoch_avg = torch.stack(self.history[-1]).mean()
        print(f"epoch {epoch} step {self.step} avg {avg.item():.4f} epoch avg {epoch_avg.item():.4f}")


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    ds = Windows(make_series())
    loader = torch.utils.data.DataLoader(ds, batch_size=64, shuffle=True, drop_last=True)
    model = Forecaster()
    past, cal, _ = next(iter(loader))
    model(past, cal)
    model = model.to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=2e-3)
    Trainer(model, opt, device).fit(pl.MpDeviceLoader(loader, device), epochs=4)


if __name__ == "__main__":
    main()
