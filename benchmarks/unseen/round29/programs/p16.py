"""Mult-VAE for implicit feedback (Liang et al. 2018), toy sized."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

config = {
    "n_users": 160,
    "n_items": 60,
    "batch_size": 32,
    "epochs": 14,
    "lr": 2e-3,
    "p_dims": [8, 24],
    "dropout": 0.5,
    "total_anneal_steps": 30,
    "anneal_cap": 1.0,
}


def interactions(n_users, n_items, seed=0):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n_users, 4))
    items = rng.normal(size=(n_items, 4))
    p = 1 / (1 + np.exp(-(taste @ items.T) + 2.0))
    return (rng.random((n_users, n_items)) < p).astype(np.float32)


class MultVAE(nn.Module):
    def __init__(self, n_items, p_dims, dropout):
        super().__init__()
        latent, hidden = p_dims
        self.enc1 = nn.Linear(n_items, hidden)
        self.enc2 = nn.Linear(hidden, 2 * latent)
        self.dec1 = nn.Linear(latent, hidden)
        self.dec2 = nn.Linear(hidden, n_items)
        self.drop = nn.Dropout(dropout)

    def encode(self, x):
        h = self.drop(F.normalize(x))
        return self.enc2(torch.tanh(self.enc1(h))).chunk(2, dim=1)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec2(torch.tanh(self.dec1(z))), mu, logvar


def elbo(recon, x, mu, logvar, anneal):
    nll = -(F.log_softmax(recon, 1) * x).sum(-1).mean()
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return nll + anneal * kld, nll, kld


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        data = torch.from_numpy(interactions(cfg["n_users"], cfg["n_items"]))
        loader = torch.utils.data.DataLoader(data, batch_size=cfg["batch_size"], shuffle=True, drop_last=True)
        self.loader = pl.MpDeviceLoader(loader, self.device)
        self.model = MultVAE(cfg["n_items"], cfg["p_dims"], cfg["dropout"]).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])
        self.update_count = 0

    def anneal(self):
        if self.cfg["total_anneal_steps"] > 0:
            return min(self.cfg["anneal_cap"], self.update_count / self.cfg["total_anneal_steps"])
        return self.cfg["anneal_cap"]

    def train_epoch(self):
        self.model.train()
        nll_sum = torch.zeros((), device=self.device)
        for x in self.loader:
            beta = self.anneal()
            recon, mu, logvar = self.model(x)
            loss, nll, kld = elbo(recon, x, mu, logvar, beta)
            self.optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(self.optimizer)
            nll_sum += nll.detach()
            self.update_count += 1
        return nll_sum, kld

    def run(self):
        n = self.cfg["n_users"] // self.cfg["batch_size"]
        for epoch in range(self.cfg["epochs"]):
            nll_sum, kld = self.train_epoch()
            torch_xla.sync()
            print("epoch %02d | beta %.2f | nll %.3f | kl %.3f" % (epoch, self.anneal(), nll_sum.item() / n, kld.item()))


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    Experiment(config).run()
