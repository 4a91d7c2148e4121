"""Electricity-load forecasting: stacked GRU trained by truncated BPTT over long series."""
import math

import torch
import torch.nn as nn
import torch_xla

WINDOW, BATCH, HIDDEN, FEATURES = 6, 8, 24, 3


def load_series(length):
    t = torch.arange(length, dtype=torch.float32)
    rows = []
    for b in range(BATCH):
        phase = b * 0.7
        daily = torch.sin(2 * math.pi * t / 24 + phase)
        weekly = torch.cos(2 * math.pi * t / 168 + phase)
        load = 0.6 * daily + 0.3 * weekly + 0.05 * torch.randn(length)
        rows.append(torch.stack([load, daily, weekly], -1))
    return torch.stack(rows)


class LoadForecaster(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.inp = nn.Linear(FEATURES, HIDDEN)
        self.cells = nn.ModuleList(nn.GRUCell(HIDDEN, HIDDEN) for _ in range(layers))
        self.norm = nn.LayerNorm(HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def init_state(self, device):
        return [torch.zeros(BATCH, HIDDEN, device=device) for _ in self.cells]

    def forward(self, x, state):
        preds = []
        for t in range(x.size(1)):
            h = torch.tanh(self.inp(x[:, t]))
            new_state = []
            for cell, s in zip(self.cells, state):
                h = cell(h, s)
                new_state.append(h)
            state = new_state
            preds.append(self.out(self.norm(h)))
        return torch.stack(preds, 1), state


class Trainer:
    def __init__(self, model, device, lr=3e-3, clip=1.0):
        self.model, self.device, self.clip = model.to(device), device, clip
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=lr)
        self.loss_fn = nn.SmoothL1Loss()

    def window_step(self, x, y, state):
        pred, state = self.model(x, state)
        loss = self.loss_fn(pred, y)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.opt.step()
        return loss.detach(), [s.detach() for s in state]

    def epoch(self, series):
        state = self.model.init_state(self.device)
        losses = []
        for start in range(0, series.size(1) - WINDOW - 1, WINDOW):
            x = series[:, start:start + WINDOW].to(self.device)
            y = series[:, start + 1:start + WINDOW + 1, :1].to(self.device)
            loss, state = self.window_step(x, y, state)
            torch_xla.sync()
            losses.append(loss)
        return torch.stack(losses).cpu().mean().item()


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    series = load_series(WINDOW * 6 + 2)
    trainer = Trainer(LoadForecaster(), device)
    for epoch in range(3):
        print("epoch", epoch, "loss", round(trainer.epoch(series), 4))


if __name__ == "__main__":
    main()
