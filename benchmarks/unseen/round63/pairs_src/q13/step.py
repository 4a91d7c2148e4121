"""Conditional VAE for single-cell counts (Poisson decoder, batch covariate)."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclasses.dataclass
class Plan:
    genes: int = 48
    hidden: int = 24
    latent: int = 6
    sites: int = 3
    batch_size: int = 16
    epochs: int = 7
    steps_per_epoch: int = 2
    kl_warmup_epochs: int = 4
    lr: float = 1e-3


class FCBlock(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.bn = nn.BatchNorm1d(n_out, momentum=0.01, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.fc(x)))


class CellVAE(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.sites = plan.sites
        self.enc = FCBlock(plan.genes + plan.sites, plan.hidden)
        self.mu = nn.Linear(plan.hidden, plan.latent)
        self.logvar = nn.Linear(plan.hidden, plan.latent)
        self.dec = FCBlock(plan.latent + plan.sites, plan.hidden)
        self.rate = nn.Linear(plan.hidden, plan.genes)

    def forward(self, counts, site):
        cov = F.one_hot(site, self.sites).to(counts.dtype)
        library = counts.sum(1, keepdim=True)
        h = self.enc(torch.cat([torch.log1p(counts), cov], 1))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        scale = F.softmax(self.rate(self.dec(torch.cat([z, cov], 1))), -1)
        return library * scale, mu, logvar


class Trainer:
    def __init__(self, plan, device):
        self.plan = plan
        self.device = device
        self.model = CellVAE(plan).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=plan.lr, eps=0.01)

    def kl_weight(self, epoch):
        return min(1.0, epoch / self.plan.kl_warmup_epochs)

    def elbo(self, counts, site, weight):
        rate, mu, logvar = self.model(counts, site)
        rec = F.poisson_nll_loss(rate, counts, log_input=False, reduction="none").sum(1)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
        return (rec + weight * kl).mean()

    def fit(self, counts, site):
        history = []
        g = torch.Generator().manual_seed(0)
        for epoch in range(self.plan.epochs):
            weight = self.kl_weight(epoch)
            perm = torch.randperm(len(counts), generator=g)
            for i in range(self.plan.steps_per_epoch):
                idx = perm[i * self.plan.batch_size:(i + 1) * self.plan.batch_size]
                x, s = counts[idx].to(self.device), site[idx].to(self.device)
                self.opt.zero_grad()
                loss = self.elbo(x, s, weight)
                loss.backward()
                self.opt.step()
                history.append(loss.detach())
                torch_xla.sync()
        return [h.item() for h in history]


def main():
    torch.manual_seed(7)
    plan = Plan()
    rate = torch.rand(plan.genes) * 4
    counts = torch.poisson(rate.expand(64, -1))
    site = torch.randint(0, plan.sites, (64,))
    trainer = Trainer(plan, torch_xla.device())
    torch_xla.sync()
    print([round(v, 3) for v in trainer.fit(counts, site)])


if __name__ == "__main__":
    main()
