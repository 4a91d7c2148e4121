"""Train a small conditional count VAE (scVI-like) on single-cell expression."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.distributions import Normal, kl_divergence


def fc_block(n_in, n_out, p):
    return nn.Sequential(
        nn.Linear(n_in, n_out),
        nn.BatchNorm1d(n_out, momentum=0.01, eps=1e-3),
        nn.ReLU(),
        nn.Dropout(p),
    )


class Encoder(nn.Module):
    def __init__(self, n_genes, n_hidden, n_latent, p):
        super().__init__()
        self.body = nn.Sequential(fc_block(n_genes, n_hidden, p), fc_block(n_hidden, n_hidden, p))
        self.mean = nn.Linear(n_hidden, n_latent)
        self.logvar = nn.Linear(n_hidden, n_latent)

    def forward(self, x):
        h = self.body(x)
        return Normal(self.mean(h), torch.exp(0.5 * self.logvar(h)) + 1e-4, validate_args=False)


class Decoder(nn.Module):
    def __init__(self, n_latent, n_batches, n_hidden, n_genes):
        super().__init__()
        self.body = fc_block(n_latent + n_batches, n_hidden, 0.0)
        self.scale = nn.Linear(n_hidden, n_genes)
        self.dropout_logits = nn.Linear(n_hidden, n_genes)

    def forward(self, z, batch_onehot, library):
        h = self.body(torch.cat([z, batch_onehot], dim=-1))
        rate = library * F.softmax(self.scale(h), dim=-1)
        return rate, self.dropout_logits(h)


def zip_log_prob(x, log_fact, mu, pi, eps=1e-8):
    softplus_pi = F.softplus(-pi)
    case_zero = F.softplus(-pi - mu) - softplus_pi
    case_non_zero = -softplus_pi - pi - mu + x * torch.log(mu + eps) - log_fact
    return torch.where(x < eps, case_zero, case_non_zero)


class CountVAE(nn.Module):
    def __init__(self, n_genes, n_batches, n_hidden=32, n_latent=6, p=0.1):
        super().__init__()
        self.n_batches = n_batches
        self.z_encoder = Encoder(n_genes, n_hidden, n_latent, p)
        self.decoder = Decoder(n_latent, n_batches, n_hidden, n_genes)
        self.gene_scale = nn.Parameter(torch.zeros(n_genes))

    def forward(self, counts, log_fact, batch_index, kl_weight):
        library = counts.sum(-1, keepdim=True)
        qz = self.z_encoder(torch.log1p(counts))
        z = qz.rsample()
        onehot = F.one_hot(batch_index, self.n_batches).float()
        mu, pi = self.decoder(z, onehot, library)
        recon = -zip_log_prob(counts, log_fact, mu * self.gene_scale.exp(), pi).sum(-1)
        prior = Normal(torch.zeros_like(qz.loc), torch.ones_like(qz.scale), validate_args=False)
        kl = kl_divergence(qz, prior).sum(-1)
        loss = torch.mean(recon + kl_weight * kl)
        return loss, recon.detach().mean(), kl.detach().mean()


def make_cells(n_cells, n_genes, n_batches, seed=0):
    rng = np.random.default_rng(seed)
    programs = rng.gamma(0.6, 1.0, (5, n_genes))
    usage = rng.dirichlet(np.ones(5) * 0.4, n_cells)
    size = rng.lognormal(2.0, 0.3, (n_cells, 1))
    counts = rng.poisson(size * (usage @ programs)).astype(np.float32)
    return counts, rng.integers(0, n_batches, n_cells)


def kl_weight_for(epoch, n_warmup):
    return min(1.0, (epoch + 1) / n_warmup)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--kl-warmup-epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--genes", type=int, default=48)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    counts, batches = make_cells(96, args.genes, 3)
    log_fact = torch.lgamma(torch.from_numpy(counts) + 1).numpy()
    model = CountVAE(args.genes, 3).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=0.01, weight_decay=1e-6)
    torch_xla.sync()

    rng = np.random.default_rng(1)
    for epoch in range(args.epochs):
        model.train()
        w = kl_weight_for(epoch, args.kl_warmup_epochs)
        order = rng.permutation(len(counts))
        for i in range(0, len(order), args.batch_size):
            idx = order[i : i + args.batch_size]
            x = torch.from_numpy(counts[idx]).to(device)
            lf = torch.from_numpy(log_fact[idx]).to(device)
            b = torch.from_numpy(batches[idx]).to(device)
            loss, recon, kl = model(x, lf, b, w)
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
        print(f"epoch {epoch} loss {loss.item():.2f} recon {recon.item():.2f} kl {kl.item():.3f} w {w:.2f}")


if __name__ == "__main__":
    main()
