"""Autoregressive surrogate for a doubly periodic advection-diffusion field.

Trained with a rollout curriculum: single-step first, then longer horizons.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

GRID = 16
MAX_HORIZON = 4
EPOCHS = 9
BATCH = 8
CURRICULUM = {0: 1, 1: 2, 2: MAX_HORIZON}


def simulate(n, length, rng):
    k = np.fft.fftfreq(GRID) * GRID
    kx, ky = np.meshgrid(k, k, indexing='ij')
    k2 = kx ** 2 + ky ** 2
    out = np.empty((n, length, 1, GRID, GRID), np.float32)
    for i in range(n):
        amp = rng.normal(size=(GRID, GRID)) * np.exp(-k2 / 12)
        field = np.fft.fft2(np.fft.ifft2(amp * GRID ** 2).real)
        wind = rng.normal(0, 0.15, 2)
        prop = np.exp(-0.01 * k2 - 1j * (wind[0] * kx + wind[1] * ky))
        for t in range(length):
            out[i, t, 0] = np.fft.ifft2(field).real
            field = field * prop
    return (out - out.mean()) / out.std()


class Trajectories(Dataset):

    def __init__(self, fields):
        self.fields = torch.from_numpy(fields)

    def __len__(self):
        return len(self.fields)

    def __getitem__(self, i):
        seq = self.fields[i]
        return seq[:2].flatten(0, 1), seq[2:]


class Stepper(nn.Module):

    def __init__(self, width=16):
        super().__init__()
        self.inp = nn.Conv2d(2, width, 3)
        self.mid = nn.Conv2d(width, width, 3)
        self.out = nn.Conv2d(width, 1, 3)

    @staticmethod
    def wrap(x):
        return F.pad(x, (1, 1, 1, 1), mode='circular')

    def forward(self, pair):
        h = F.silu(self.inp(self.wrap(pair)))
        h = h + F.silu(self.mid(self.wrap(h)))
        return pair[:, 1:] + self.out(self.wrap(h))


def rollout(model, pair, horizon):
    preds = []
    for _ in range(horizon):
        nxt = model(pair)
        preds.append(nxt)
        pair = torch.cat([pair[:, 1:], nxt], dim=1)
    return torch.stack(preds, dim=1)


def horizon_for(epoch):
    return CURRICULUM[max(e for e in CURRICULUM if e <= epoch)]


class Trainer:

    def __init__(self, train_set, valid_set, device):
        self.device = device
        gen = torch.Generator().manual_seed(4)
        self.train_loader = DataLoader(train_set, BATCH, shuffle=True, generator=gen)
        self.valid_loader = DataLoader(valid_set, BATCH)
        self.model = Stepper().to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        total = EPOCHS * len(self.train_loader)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.opt, total, eta_min=2e-4)

    def train_epoch(self, horizon):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for pair, future in self.train_loader:
            pair, future = pair.to(self.device), future.to(self.device)
            pred = rollout(self.model, pair, horizon)
            loss = F.mse_loss(pred, future[:, :horizon])
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.sched.step()
            total += loss.detach() * pair.shape[0]
            torch_xla.sync()
        return total.item() / len(self.train_loader.dataset)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        sq, n = torch.zeros(MAX_HORIZON, device=self.device), 0
        for pair, future in self.valid_loader:
            pair, future = pair.to(self.device), future.to(self.device)
            err = rollout(self.model, pair, MAX_HORIZON) - future
            sq += err.square().mean(dim=(2, 3, 4)).sum(0)
            n += pair.shape[0]
            torch_xla.sync()
        return (sq / n).sqrt().cpu().tolist()


def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    length = 2 + MAX_HORIZON
    trainer = Trainer(Trajectories(simulate(44, length, rng)),
                      Trajectories(simulate(16, length, rng)),
                      torch_xla.device())
    for epoch in range(EPOCHS):
        horizon = horizon_for(epoch)
        loss = trainer.train_epoch(horizon)
        rmse = trainer.validate()
        print(f'epoch {epoch} horizon {horizon} loss {loss:.4f} rmse '
              + ' '.join(f'{v:.3f}' for v in rmse))


if __name__ == '__main__':
    main()
