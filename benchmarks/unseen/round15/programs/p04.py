"""Sparse autoencoder on calcium-imaging population vectors."""
from __future__ import annotations

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

CFG = {
    "neurons": 48,
    "latent": 32,
    "batch": 16,
    "epochs": 14,
    "lr": 2e-3,
    "l1": 1e-3,
    "target_rate": 0.1,
}


class PopulationVectors(Dataset):
    """dF/F vectors drawn from a handful of overlapping assemblies."""

    def __init__(self, n, neurons, assemblies=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        member = (torch.rand(assemblies, neurons, generator=g) < 0.25).float()
        active = (torch.rand(n, assemblies, generator=g) < 0.3).float()
        gain = 0.5 + torch.rand(n, assemblies, generator=g)
        base = 0.1 * torch.randn(n, neurons, generator=g)
        self.x = torch.relu((active * gain) @ member + base)

    def __len__(self):
        return self.x.size(0)

    def __getitem__(self, i):
        return self.x[i]


class SparseAutoencoder(nn.Module):
    def __init__(self, neurons, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(neurons, 40), nn.ELU(),
                                     nn.Linear(40, latent))
        self.code = nn.Softplus()
        self.decoder = nn.Linear(latent, neurons)

    def forward(self, x):
        return self.decoder(self.code(self.encoder(x)))


class ActivityRegularizer:
    """Collects the penalty of the watched layers while the model runs."""

    def __init__(self, l1, target_rate):
        self.l1, self.target_rate = l1, target_rate
        self.terms: list[torch.Tensor] = []
        self.handles = []

    def watch(self, layer: nn.Module):
        self.handles.append(layer.register_forward_hook(self._on_forward))

    def _on_forward(self, layer, inputs, output):
        if not layer.training:
            return
        rate = output.mean(dim=0)
        self.terms.append(output.abs().mean()
                          + (rate - self.target_rate).square().mean())

    def penalty(self):
        total = torch.stack(self.terms).sum() * self.l1
        self.terms = []
        return total


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = SparseAutoencoder(cfg["neurons"], cfg["latent"]).to(self.device)
        self.reg = ActivityRegularizer(cfg["l1"], cfg["target_rate"])
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=cfg["lr"])
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.95)

    def on_epoch_start(self):
        self.model.train()
        self.reg.watch(self.model.code)

    def train_epoch(self, loader):
        self.on_epoch_start()
        running = torch.zeros((), device=self.device)
        for x in loader:
            self.optimizer.zero_grad()
            recon = self.model(x)
            loss = (recon - x).square().mean() + self.reg.penalty()
            loss.backward()
            self.optimizer.step()
            running += loss.detach()
        self.scheduler.step()
        return running / len(loader)

    @torch.no_grad()
    def explained_variance(self, loader):
        self.model.eval()
        err = torch.zeros((), device=self.device)
        var = torch.zeros((), device=self.device)
        for x in loader:
            err += (self.model(x) - x).square().sum()
            var += (x - x.mean(0)).square().sum()
        return 1 - err / var


def loaders(cfg, device):
    train = PopulationVectors(96, cfg["neurons"], seed=1)
    held = PopulationVectors(48, cfg["neurons"], seed=1)
    make = lambda ds, shuffle: pl.MpDeviceLoader(
        DataLoader(ds, batch_size=cfg["batch"], shuffle=shuffle, drop_last=True), device)
    return make(train, True), make(held, False)


def main():
    torch.manual_seed(5)
    exp = Experiment(CFG)
    train, held = loaders(CFG, exp.device)
    for epoch in range(CFG["epochs"]):
        loss = exp.train_epoch(train)
        ev = exp.explained_variance(held)
        xm.add_step_closure(
            lambda e, l, v: print(f"epoch {e:2d} loss {l.item():.4f} ev {v.item():.3f}"),
            args=(epoch, loss, ev))
        torch_xla.sync()


if __name__ == "__main__":
    main()
