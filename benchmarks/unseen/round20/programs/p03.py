"""Cox proportional hazards with a neural risk score, on a simulated cohort."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import torch_xla


@dataclass
class Config:
    patients: int = 960
    covariates: int = 12
    batch: int = 96
    epochs: int = 3
    lr: float = 3e-3
    hidden: int = 24


class Cohort(Dataset):
    def __init__(self, cfg, seed=0):
        r = np.random.default_rng(seed)
        x = r.normal(size=(cfg.patients, cfg.covariates)).astype("float32")
        hazard = np.exp(0.8 * x[:, 0] - 0.5 * x[:, 1] * x[:, 2])
        death = r.exponential(1.0 / hazard)
        lost = r.exponential(1.2, cfg.patients)
        self.x = x
        self.time = np.minimum(death, lost).astype("float32")
        self.event = death <= lost

    def __len__(self):
        return len(self.time)

    def __getitem__(self, i):
        return self.x[i], self.time[i], self.event[i]


def collate(rows):
    """Sort by time, longest follow-up first, so that a risk set is a prefix."""
    x, t, e = zip(*rows)
    t = np.asarray(t)
    order = np.argsort(-t)
    x = torch.from_numpy(np.stack(x)[order])
    failed = torch.from_numpy(np.flatnonzero(np.asarray(e)[order]))
    return x, failed


class RiskNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(cfg.covariates, cfg.hidden),
            nn.SELU(),
            nn.Linear(cfg.hidden, 1, bias=False),
        )

    def forward(self, x):
        return self.body(x).squeeze(-1)


def partial_likelihood(risk, failed):
    top = risk.max().detach()
    log_risk_set = torch.log(torch.cumsum(torch.exp(risk - top), 0)) + top
    return (log_risk_set[failed] - risk[failed]).mean()


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(Cohort(cfg), batch_size=cfg.batch, shuffle=True, drop_last=True,
                        collate_fn=collate, generator=torch.Generator().manual_seed(1))
    model = RiskNet(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        total = torch.zeros((), device=device)
        for x, failed in loader:
            x, failed = x.to(device), failed.to(device)
            optimizer.zero_grad()
            loss = partial_likelihood(model(x), failed)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            torch_xla.sync()
        print(f"epoch {epoch} partial likelihood {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    train(Config())
