"""Two-tower recommender: accumulated gradients, averaged weights for evaluation, then a calibration stage."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

HP = dict(n_users=80, n_items=60, dim=16, batch=32, accum=4, epochs=8, stage2_epoch=3, lr=5e-3, ema=0.97)


def interactions(n, hp, seed):
    g = torch.Generator().manual_seed(seed)
    base = torch.Generator().manual_seed(99)
    pu, pi = torch.randn(hp["n_users"], 4, generator=base), torch.randn(hp["n_items"], 4, generator=base)
    u = torch.randint(0, hp["n_users"], (n,), generator=g)
    i = torch.randint(0, hp["n_items"], (n,), generator=g)
    click = (torch.rand(n, generator=g) < torch.sigmoid((pu[u] * pi[i]).sum(1) - 0.5)).float()
    return TensorDataset(u, i, click)


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.table = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, idx):
        return self.mlp(self.table(idx))


class TwoTower(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.user = Tower(hp["n_users"], hp["dim"])
        self.item = Tower(hp["n_items"], hp["dim"])
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.bias = nn.Parameter(torch.tensor(-0.3))

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) * self.scale + self.bias


class Trainer:
    def __init__(self, hp):
        self.hp = hp
        self.device = torch_xla.device()
        self.model = TwoTower(hp).to(self.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=hp["lr"])
        train, valid = interactions(32 * 16, hp, 0), interactions(32 * 6, hp, 1)
        self.train_dl = DataLoader(train, batch_size=hp["batch"], shuffle=True, drop_last=True)
        self.valid_dl = DataLoader(valid, batch_size=hp["batch"], drop_last=True)
        torch_xla.sync()

    @torch.no_grad()
    def update_average(self):
        for a, p in zip(self.average.parameters(), self.model.parameters()):
            a.lerp_(p, 1 - self.hp["ema"])

    def start_calibration(self):
        for tower in (self.model.user, self.model.item):
            tower.requires_grad_(False)
        self.opt = torch.optim.SGD([self.model.scale, self.model.bias], lr=0.05, momentum=0.9)

    def fit_epoch(self):
        accum = self.hp["accum"]
        self.opt.zero_grad(set_to_none=True)
        for k, (u, i, click) in enumerate(pl.MpDeviceLoader(self.train_dl, self.device)):
            loss = F.binary_cross_entropy_with_logits(self.model(u, i), click)
            (loss / accum).backward()
            if (k + 1) % accum == 0:
                xm.optimizer_step(self.opt)
                self.opt.zero_grad(set_to_none=True)
                self.update_average()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self):
        nll = torch.zeros((), device=self.device)
        hits = torch.zeros((), device=self.device)
        n = 0
        for u, i, click in pl.MpDeviceLoader(self.valid_dl, self.device):
            logit = self.average(u, i)
            nll += F.binary_cross_entropy_with_logits(logit, click)
            hits += ((logit > 0) == (click > 0.5)).float().mean()
            n += 1
        xm.mark_step()
        return nll.item() / n, hits.item() / n


def main():
    torch.manual_seed(0)
    trainer = Trainer(HP)
    for epoch in range(HP["epochs"]):
        if epoch == HP["stage2_epoch"]:
            trainer.start_calibration()
        loss = trainer.fit_epoch()
        nll, acc = trainer.evaluate()
        print(f"epoch {epoch} train {loss.item():.4f} valid nll {nll:.4f} acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
