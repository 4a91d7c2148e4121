"""Five-class sleep staging from single-channel EEG epochs.

First the classifier on a frozen filter bank, then everything together; validation after every pass over the nights.
"""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

STAGES = ["W", "N1", "N2", "N3", "REM"]
SAMPLES = 64
RATE = 32.0


def recordings(n, seed):
    g = torch.Generator().manual_seed(seed)
    stage = torch.randint(0, len(STAGES), (n,), generator=g)
    hz = torch.tensor([10.0, 6.0, 13.0, 1.5, 4.0])[stage].unsqueeze(1)
    t = torch.arange(SAMPLES) / RATE
    phase = 2 * math.pi * torch.rand(n, 1, generator=g)
    wave = torch.sin(2 * math.pi * hz * t + phase)
    return (wave + 0.5 * torch.randn(n, SAMPLES, generator=g)).unsqueeze(1), stage


class Stager(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = nn.Sequential(nn.Conv1d(1, 8, 15, stride=2), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, len(STAGES)))

    def forward(self, x):
        h = self.bank(x)
        return self.head(torch.cat([h.mean(2), h.amax(2)], 1))


def batches(x, y, size, gen=None):
    order = torch.arange(len(x)) if gen is None else torch.randperm(len(x), generator=gen)
    for part in order.split(size):
        yield x[part], y[part]


@torch.no_grad()
def validate(model, x, y, device):
    model.eval()
    table = torch.zeros(len(STAGES), len(STAGES), device=device)
    for bx, by in batches(x, y, 20):
        guess = model(bx.to(device)).argmax(1)
        rows = nn.functional.one_hot(by.to(device), len(STAGES)).float()
        cols = nn.functional.one_hot(guess, len(STAGES)).float()
        table += rows.T @ cols
        xm.mark_step()
    model.train()
    table = table.cpu()
    po = table.diag().sum() / table.sum()
    pe = (table.sum(0) * table.sum(1)).sum() / table.sum() ** 2
    return ((po - pe) / (1 - pe)).item()


def fit(model, parameters, lr, passes, data, device, gen, label):
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    (tx, ty), (vx, vy) = data
    for k in range(passes):
        for bx, by in batches(tx, ty, 16, gen):
            loss = nn.functional.cross_entropy(model(bx.to(device)), by.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            xm.mark_step()
        print(f"{label} pass {k}: kappa {validate(model, vx, vy, device):+.3f}")


def main():
    torch.manual_seed(30)
    gen = torch.Generator().manual_seed(31)
    device = torch_xla.device()
    model = Stager().to(device)
    data = recordings(104, 1), recordings(40, 2)
    for p in model.bank.parameters():
        p.requires_grad_(False)
    fit(model, model.head.parameters(), 0.05, 3, data, device, gen, "head")
    for p in model.bank.parameters():
        p.requires_grad_(True)
    fit(model, model.parameters(), 0.02, 3, data, device, gen, "full")


if __name__ == "__main__":
    main()
