"""Online yaw control of a row of turbines with advected wakes."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

N_TURBINES = 8
DT = 4.0
HISTORY = 64
INTERVALS = 60


def wind_series(n, rng):
    speed, direction = 9.0, 0.0
    out = []
    for _ in range(n):
        speed = 9.0 + 0.92 * (speed - 9.0) + rng.normal(0.0, 0.5)
        direction = 0.95 * direction + rng.normal(0.0, 0.04)
        out.append((float(np.clip(speed, 6.0, 14.0)), direction))
    return out


class YawPolicy(nn.Module):
    def __init__(self, n, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(3 + n, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
        )
        self.head = nn.Linear(width, n)

    def forward(self, weather, deficit):
        z = self.body(torch.cat([weather, deficit]))
        return 0.45 * torch.tanh(self.head(z))


class WakeLine:
    """Deficit of every turbine, most recent first, one row per interval."""

    def __init__(self, spacing, device):
        self.spacing = spacing
        self.history = torch.zeros(HISTORY, N_TURBINES, device=device)

    def travel(self, local_speed):
        lag = self.spacing / (local_speed[:-1] * DT)
        return np.clip(np.rint(lag), 1, HISTORY - 1).astype(int).tolist()

    def arriving(self, lags):
        parts = [torch.zeros((), device=self.history.device)]
        for up, lag in enumerate(lags):
            parts.append(self.history[lag, up] + 0.5 * parts[-1])
        return torch.stack(parts)

    def push(self, deficit):
        row = deficit.detach().unsqueeze(0)
        self.history = torch.cat([row, self.history[:-1]])


def induced_deficit(yaw, direction):
    steer = yaw + direction
    return 0.22 * torch.cos(yaw) ** 2 * torch.exp(-6.0 * steer ** 2)


def farm_power(yaw, arriving, induced, speed):
    ahead = torch.cat([torch.zeros(1, device=yaw.device), induced[:-1]])
    effective = speed * (1.0 - 0.6 * arriving - 0.4 * ahead)
    return (effective ** 3 * torch.cos(yaw) ** 1.9) / 1000.0


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = xm.xla_device()
    spacing = rng.uniform(480.0, 900.0, N_TURBINES - 1)

    policy = YawPolicy(N_TURBINES).to(device)
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    line = WakeLine(spacing, device)
    last_yaw = torch.zeros(N_TURBINES, device=device)
    produced = torch.zeros((), device=device)

    for t, (speed, direction) in enumerate(wind_series(INTERVALS, rng)):
        local = speed * (1.0 + rng.normal(0.0, 0.05, N_TURBINES))
        lags = line.travel(local)
        weather = torch.tensor(
            [speed / 10.0, math.sin(direction), math.cos(direction)],
            dtype=torch.float32,
        ).to(device)
        local = torch.from_numpy(local.astype(np.float32)).to(device)

        arriving = line.arriving(lags)
        yaw = policy(weather, arriving)
        induced = induced_deficit(yaw, weather[1])
        power = farm_power(yaw, arriving, induced, local)
        loss = -power.mean() + 0.3 * (yaw - last_yaw).pow(2).mean()

        opt.zero_grad()
        loss.backward()
        opt.step()

        line.push(induced)
        last_yaw = yaw.detach()
        produced = produced + power.detach().sum()
        torch_xla.sync()
        if t % 20 == 19:
            print(f"interval {t + 1}: mean output {produced.item() / (t + 1):.3f}")


if __name__ == "__main__":
    main()
