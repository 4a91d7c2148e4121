"""Pedestrian trajectory forecasting: autoregressive recurrent decoder.

Five observed positions in, six predicted displacements out, with the share
of ground truth fed to the decoder falling over training.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

OBS, PRED = 5, 6


class Walks(torch.utils.data.Dataset):
    """Constant-turn walks with jitter, as displacements."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        heading = rng.uniform(0, 2 * math.pi, (n, 1))
        turn = rng.normal(0, 0.15, (n, 1))
        speed = rng.uniform(0.3, 1.2, (n, 1))
        t = np.arange(OBS + PRED)[None]
        ang = heading + turn * t
        step = np.stack([speed * np.cos(ang), speed * np.sin(ang)], -1)
        step += rng.normal(0, 0.03, step.shape)
        self.steps = torch.as_tensor(step, dtype=torch.float32)

    def __len__(self):
        return len(self.steps)

    def __getitem__(self, i):
        return self.steps[i, :OBS], self.steps[i, OBS:]


class Forecaster(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.history = nn.Sequential(nn.Flatten(), nn.Linear(2 * OBS, hidden), nn.Tanh())
        self.dec = nn.RNNCell(2, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, obs, future=None, truth_rate=0.0, rng=None):
        h = self.history(obs)
        prev = obs[:, -1]
        preds = []
        for t in range(PRED):
            h = self.dec(prev, h)
            step = prev + self.out(h)
            preds.append(step)
            if future is not None and rng.random() < truth_rate:
                prev = future[:, t]
            else:
                prev = step
        return torch.stack(preds, dim=1)


def inverse_sigmoid(step, k):
    return k / (k + math.exp(step / k))


def ade(pred, future):
    gap = pred.cumsum(1) - future.cumsum(1)
    return gap.pow(2).sum(-1).add(1e-8).sqrt().mean()


@torch.no_grad()
def validate(model, batches):
    model.eval()
    scores = []
    for obs, future in batches:
        scores.append(ade(model(obs), future))
        xm.mark_step()
    model.train()
    return torch.stack(scores).mean().item()


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(8)
    device = torch_xla.device()

    train = torch.utils.data.DataLoader(
        Walks(288, seed=1), batch_size=32, shuffle=True, drop_last=True,
        generator=torch.Generator().manual_seed(4))
    held = torch.utils.data.DataLoader(Walks(64, seed=9), batch_size=32)
    held = [(o.to(device), f.to(device)) for o, f in held]

    model = Forecaster().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=2e-2, momentum=0.9)
    step = 0
    for epoch in range(2):
        for obs, future in train:
            obs, future = obs.to(device), future.to(device)
            rate = inverse_sigmoid(step, k=6.0)
            pred = model(obs, future, rate, rng)
            loss = ade(pred, future) + (pred - future).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            xm.mark_step()
            step += 1
        print(f"epoch {epoch} train {loss.item():.4f} rate {rate:.2f} "
              f"ADE {validate(model, held):.4f}")


if __name__ == "__main__":
    main()
