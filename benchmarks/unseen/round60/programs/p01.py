"""Pedestrian trajectory forecasting: MLP over the observed track, autoregressive recurrent decoder, bivariate Gaussian output."""
import math
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

OBS_LEN, PRED_LEN = 6, 9
BATCH = 24
HID = 20
STEPS = 36


def simulate_walkers(n, rng):
    """Smooth tracks in metres at 2.5 Hz: constant turn rate, speed changes, a little jitter."""
    total = OBS_LEN + PRED_LEN
    heading = rng.uniform(-math.pi, math.pi, size=n)
    turn = rng.normal(scale=0.08, size=n)
    speed = np.abs(rng.normal(1.3, 0.3, size=n)) * 0.4
    tracks = np.zeros((n, total, 2), dtype=np.float32)
    pos = np.zeros((n, 2))
    for t in range(total):
        step = np.stack([np.cos(heading), np.sin(heading)], axis=1) * speed[:, None]
        pos = pos + step + rng.normal(scale=0.02, size=(n, 2))
        tracks[:, t] = pos
        heading = heading + turn
        speed = np.clip(speed + rng.normal(scale=0.02, size=n), 0.05, 1.2)
    return tracks


class TrackDataset:
    def __init__(self, n, seed):
        tracks = simulate_walkers(n, np.random.default_rng(seed))
        origin = tracks[:, OBS_LEN - 1:OBS_LEN]
        self.rel = np.diff(tracks - origin, axis=1, prepend=tracks[:, :1] - origin)
        self.rel[:, 0] = 0.0

    def batches(self, batch_size, seed):
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(len(self.rel))
            for i in range(0, len(order) - batch_size + 1, batch_size):
                chunk = self.rel[order[i:i + batch_size]]
                # random rotation of the scene
                a = rng.uniform(-math.pi, math.pi)
                rot = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=np.float32)
                chunk = (chunk @ rot).astype(np.float32)
                yield torch.from_numpy(chunk[:, :OBS_LEN]), torch.from_numpy(chunk[:, OBS_LEN:])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * OBS_LEN, 2 * HID), nn.ReLU(), nn.Linear(2 * HID, HID), nn.Tanh())

    def forward(self, obs):
        return self.net(obs.flatten(1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, HID)
        self.out = nn.Linear(HID, 5)

    def forward(self, last, h, target=None, teacher_forcing=0.0):
        params = []
        inp = last
        for t in range(PRED_LEN):
            h = self.cell(inp, h)
            p = self.out(h)
            params.append(p)
            if target is not None and random.random() < teacher_forcing:
                inp = target[:, t]
            else:
                inp = p[:, :2]
        return torch.stack(params, dim=1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, obs, target=None, teacher_forcing=0.0):
        return self.decoder(obs[:, -1], self.encoder(obs), target, teacher_forcing)


def gaussian_nll(params, target):
    mu, log_s, rho = params[..., :2], params[..., 2:4].clamp(-4.0, 3.0), torch.tanh(params[..., 4]) * 0.95
    d = (target - mu) / log_s.exp()
    one_m = 1.0 - rho * rho
    quad = (d[..., 0] ** 2 + d[..., 1] ** 2 - 2.0 * rho * d[..., 0] * d[..., 1]) / one_m
    return (0.5 * quad + 0.5 * torch.log(one_m) + log_s.sum(-1)).mean()


def forcing_ratio(step, k=30.0):
    # inverse sigmoid decay
    return k / (k + math.exp(step / k * 3.0))


@torch.no_grad()
def displacement(model, obs, target):
    pred = model(obs)[..., :2]
    err = (pred.cumsum(1) - target.cumsum(1)).norm(dim=-1)
    return err.mean(), err[:, -1].mean()


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = xm.xla_device()
    train = TrackDataset(1200, seed=0).batches(BATCH, seed=1)
    held_out = TrackDataset(64, seed=9)
    val_obs = torch.from_numpy(held_out.rel[:, :OBS_LEN].copy()).to(device)
    val_tgt = torch.from_numpy(held_out.rel[:, OBS_LEN:].copy()).to(device)

    model = Forecaster().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.985)
    xm.mark_step()

    for step in range(STEPS):
        obs, target = next(train)
        obs, target = obs.to(device), target.to(device)
        pred = model(obs, target, teacher_forcing=forcing_ratio(step))
        loss = gaussian_nll(pred, target)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        xm.mark_step()
        if (step + 1) % 12 == 0:
            ade, fde = displacement(model, val_obs, val_tgt)
            xm.mark_step()
            print(f"step {step + 1:3d} nll {loss.item():.3f} ADE {ade.item():.3f} FDE {fde.item():.3f}")


if __name__ == "__main__":
    main()
