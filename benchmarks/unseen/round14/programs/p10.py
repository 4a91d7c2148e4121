"""Neural emulator of the Lorenz-96 system with log-spaced snapshots.

Snapshots are taken at powers of two, so that early training dynamics can be
studied at fine resolution without storing the whole run.
"""
import io
import json
import math
from pathlib import Path
import tempfile

import torch
import torch.nn as nn
import torch_xla

CONFIG = {
    "grid": 16, "forcing": 8.0, "dt": 0.05, "hidden": 32,
    "batch": 16, "steps": 32, "lr": 5e-2, "warmup": 6, "seed": 9,
}


def lorenz96(x, forcing):
    return (x.roll(-1, -1) - x.roll(2, -1)) * x.roll(1, -1) - x + forcing


def rk4(x, dt, forcing):
    k1 = lorenz96(x, forcing)
    k2 = lorenz96(x + 0.5 * dt * k1, forcing)
    k3 = lorenz96(x + 0.5 * dt * k2, forcing)
    k4 = lorenz96(x + dt * k3, forcing)
    return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Simulator:
    """Host-side reference integrator that yields (state, increment) pairs."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg["seed"])
        self.x = cfg["forcing"] + torch.randn(cfg["batch"], cfg["grid"], generator=self.gen)
        for _ in range(50):
            self.x = rk4(self.x, cfg["dt"], cfg["forcing"])

    def next_pair(self):
        before = self.x
        self.x = rk4(before, self.cfg["dt"], self.cfg["forcing"])
        return before / 10, (self.x - before) / 2


class Emulator(nn.Module):
    def __init__(self, grid, hidden):
        super().__init__()
        self.inp = nn.Linear(grid, hidden)
        self.gate = nn.Linear(grid, hidden)
        self.out = nn.Linear(hidden, grid)

    def forward(self, x):
        return self.out(torch.tanh(self.inp(x)) * torch.sigmoid(self.gate(x)))


class SnapshotWriter:
    def __init__(self, folder: Path):
        self.folder, self.index = folder, []

    @staticmethod
    def due(step):
        return step & (step - 1) == 0

    def save(self, step, model, loss):
        torch_xla.sync(wait=True)
        state = {k: v.cpu() for k, v in model.state_dict().items()}
        buf = io.BytesIO()
        torch.save(state, buf)
        (self.folder / f"step{step:06d}.pt").write_bytes(buf.getvalue())
        self.index.append({"step": step, "loss": round(loss.item(), 5)})
        (self.folder / "index.json").write_text(json.dumps(self.index))
        return self.index[-1]


def schedule(step, cfg):
    if step < cfg["warmup"]:
        return (step + 1) / (cfg["warmup"] + 1)
    t = (step - cfg["warmup"]) / max(1, cfg["steps"] - cfg["warmup"])
    return 0.1 + 0.45 * (1 + math.cos(math.pi * t))


def train(cfg, folder):
    torch.manual_seed(cfg["seed"])
    device = torch_xla.device()
    sim = Simulator(cfg)
    model = Emulator(cfg["grid"], cfg["hidden"]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: schedule(s, cfg))
    writer = SnapshotWriter(folder)
    for step in range(1, cfg["steps"] + 1):
        state, increment = (t.to(device) for t in sim.next_pair())
        loss = (model(state) - increment).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if writer.due(step):
            print("snapshot", writer.save(step, model, loss))
    print("kept", len(writer.index), "snapshots")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        train(CONFIG, Path(tmp))
