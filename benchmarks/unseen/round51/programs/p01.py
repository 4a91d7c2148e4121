"""Pedestrian trajectory forecasting: convolutional encoder, autoregressive RNN decoder.

8 observed positions -> 7 future positions, displacement coordinates.
Scheduled sampling, inverse sigmoid decay (Bengio et al. 2015).
"""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 1337
T_OBS = 8
T_PRED = 7
BATCH = 16
STEPS = 20


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class CrowdDataset(torch.utils.data.Dataset):
    """Synthetic pedestrians walking towards a goal with some social noise."""

    def __init__(self, n=256, seed=0):
        rng = np.random.default_rng(seed)
        t_all = T_OBS + T_PRED + 1
        start = rng.uniform(-5, 5, (n, 1, 2))
        heading = rng.uniform(-math.pi, math.pi, (n, 1))
        turn = rng.normal(0, 0.05, (n, 1))
        speed = rng.uniform(0.2, 0.6, (n, 1))
        ang = heading + turn * np.arange(t_all)[None]
        vel = speed[..., None] * np.stack([np.cos(ang), np.sin(ang)], -1)
        vel = vel + rng.normal(0, 0.02, vel.shape)
        pos = start + np.cumsum(vel, 1)
        self.disp = torch.tensor(np.diff(pos, axis=1), dtype=torch.float32)

    def __len__(self):
        return len(self.disp)

    def __getitem__(self, i):
        return self.disp[i, :T_OBS], self.disp[i, T_OBS:]


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, hidden, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(hidden * T_OBS, hidden), nn.Tanh())

    def forward(self, obs):
        return self.net(obs.transpose(1, 2))


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embed = nn.Linear(2, hidden)
        self.cell = nn.RNNCell(hidden, hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, last, h, horizon, target=None, ratio=0.0):
        outputs = []
        inp = last
        for t in range(horizon):
            h = self.cell(torch.relu(self.embed(inp)), h)
            pred = self.head(h)
            outputs.append(pred)
            if target is not None and random.random() < ratio:
                inp = target[:, t]
            else:
                inp = pred
        return torch.stack(outputs, 1)


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.encoder = Encoder(hidden)
        self.decoder = Decoder(hidden)

    def forward(self, obs, target=None, ratio=0.0):
        h = self.encoder(obs)
        return self.decoder(obs[:, -1], h, T_PRED, target, ratio)


def sampling_ratio(step, k=6.0):
    return k / (k + math.exp(step / k))


def ade(pred, gt):
    return (pred.cumsum(1) - gt.cumsum(1)).norm(dim=-1).mean()


def main():
    set_seed(SEED)
    device = xm.xla_device()
    loader = torch.utils.data.DataLoader(
        CrowdDataset(), batch_size=BATCH, shuffle=True, drop_last=True)
    model = Forecaster().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.SmoothL1Loss()

    step = 0
    running = torch.zeros((), device=device)
    while step < STEPS:
        for obs, fut in loader:
            obs, fut = obs.to(device), fut.to(device)
            opt.zero_grad()
            pred = model(obs, fut, sampling_ratio(step))
            loss = criterion(pred, fut)
            loss.backward()
            opt.step()
            running = running * 0.9 + loss.detach() * 0.1
            torch_xla.sync()
            step += 1
            if step % 10 == 0:
                print(f"step {step:3d} loss {running.item():.5f} "
                      f"ratio {sampling_ratio(step):.2f}")
            if step >= STEPS:
                break

    model.eval()
    with torch.no_grad():
        obs, fut = next(iter(loader))
        obs, fut = obs.to(device), fut.to(device)
        score = ade(model(obs), fut)
    torch_xla.sync()
    print(f"ADE {score.item():.4f}")


if __name__ == "__main__":
    main()
