"""Variational autoencoder for single-cell counts with batch covariates."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla
from torch.distributions import Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset


def fc_layer(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out, momentum=0.01, eps=1e-3), nn.ReLU())


class Encoder(nn.Module):
    def __init__(self, n_genes, n_batches, n_hidden, n_latent):
        super().__init__()
        self.body = nn.Sequential(fc_layer(n_genes + n_batches, n_hidden), fc_layer(n_hidden, n_hidden))
        self.mean = nn.Linear(n_hidden, n_latent)
        self.var = nn.Linear(n_hidden, n_latent)

    def forward(self, x, batch):
        h = self.body(torch.cat([x, batch], dim=-1))
        return Normal(self.mean(h), (torch.exp(self.var(h)) + 1e-4).sqrt(), validate_args=False)


class Decoder(nn.Module):
    def __init__(self, n_genes, n_batches, n_hidden, n_latent):
        super().__init__()
        self.body = fc_layer(n_latent + n_batches, n_hidden)
        self.scale = nn.Linear(n_hidden, n_genes)

    def forward(self, z, batch, library):
        h = self.body(torch.cat([z, batch], dim=-1))
        return torch.softmax(self.scale(h), dim=-1) * library


class CountVAE(nn.Module):
    def __init__(self, n_genes, n_batches, n_hidden=32, n_latent=8):
        super().__init__()
        self.n_batches = n_batches
        self.encoder = Encoder(n_genes, n_batches, n_hidden, n_latent)
        self.decoder = Decoder(n_genes, n_batches, n_hidden, n_latent)

    def forward(self, counts, batch_index):
        batch = nn.functional.one_hot(batch_index, self.n_batches).float()
        library = counts.sum(dim=-1, keepdim=True)
        qz = self.encoder(torch.log1p(counts), batch)
        rate = self.decoder(qz.rsample(), batch, library)
        return qz, rate

    def loss(self, counts, batch_index, kl_weight):
        qz, rate = self(counts, batch_index)
        pz = Normal(torch.zeros_like(qz.loc), torch.ones_like(qz.scale), validate_args=False)
        kl = kl_divergence(qz, pz).sum(dim=-1)
        reconst = nn.functional.poisson_nll_loss(rate, counts, log_input=False, reduction="none").sum(dim=-1)
        return (reconst + kl_weight * kl).mean(), reconst.mean().detach(), kl.mean().detach()


class TrainingPlan:
    def __init__(self, module, lr=1e-3, weight_decay=1e-6, eps=0.01, n_epochs_kl_warmup=5,
                 min_kl_weight=0.0, max_kl_weight=1.0):
        self.module = module
        self.n_epochs_kl_warmup = n_epochs_kl_warmup
        self.min_kl_weight = min_kl_weight
        self.max_kl_weight = max_kl_weight
        self.optimizer = torch.optim.Adam(module.parameters(), lr=lr, weight_decay=weight_decay, eps=eps)

    def kl_weight(self, epoch):
        frac = min(1.0, epoch / self.n_epochs_kl_warmup)
        return self.min_kl_weight + frac * (self.max_kl_weight - self.min_kl_weight)

    def training_step(self, counts, batch_index, epoch):
        self.optimizer.zero_grad()
        loss, reconst, kl = self.module.loss(counts, batch_index, self.kl_weight(epoch))
        loss.backward()
        self.optimizer.step()
        return loss.detach(), reconst, kl


def synthetic_counts(n_cells, n_genes, n_batches, rng):
    programs = rng.gamma(0.6, 1.0, (4, n_genes))
    usage = rng.dirichlet(np.ones(4) * 0.5, n_cells)
    depth = rng.lognormal(4.0, 0.4, (n_cells, 1))
    rate = usage @ programs
    counts = rng.poisson(depth * rate / rate.sum(1, keepdims=True))
    return counts.astype(np.float32), rng.integers(0, n_batches, n_cells)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--genes", type=int, default=48)
    ap.add_argument("--batches", type=int, default=3)
    ap.add_argument("--cells", type=int, default=64)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    counts, batch_index = synthetic_counts(args.cells, args.genes, args.batches, np.random.default_rng(0))
    dataset = TensorDataset(torch.from_numpy(counts), torch.from_numpy(batch_index))
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)

    plan = TrainingPlan(CountVAE(args.genes, args.batches).to(device))
    torch_xla.sync()
    for epoch in range(args.epochs):
        for x, b in loader:
            loss, reconst, kl = plan.training_step(x.to(device), b.to(device), epoch)
            torch_xla.sync()
        print(f"epoch {epoch} elbo {-loss.item():.3f} reconst {reconst.item():.3f} kl {kl.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
