"""Count model for droplet data: zero-inflated Poisson decoder, donor covariate, Gaussian latent."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, TensorDataset

GENES, DONORS, LATENT = 30, 3, 5


class CountVAE(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(GENES + DONORS, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, LATENT)
        self.logvar = nn.Linear(hidden, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT + DONORS, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.px = nn.Linear(hidden, GENES)
        self.dropout_logit = nn.Linear(hidden, GENES)
        self.register_buffer("donor_ids", torch.arange(DONORS))

    def forward(self, counts, donor):
        d = (donor[:, None] == self.donor_ids).to(counts.dtype)
        lib = counts.sum(1, keepdim=True)
        h = self.enc(torch.cat([torch.log1p(counts), d], dim=1))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        g = self.dec(torch.cat([z, d], dim=1))
        return lib * self.px(g).softmax(dim=1), self.dropout_logit(g), mu, logvar


def zip_nll(x, rate, logit, eps=1e-8):
    base = F.softplus(-logit)
    zero = base - F.softplus(-logit - rate)
    some = base + logit + rate - x * torch.log(rate + eps)
    return torch.where(x < 0.5, zero, some).sum(1)


class Plan:
    """Trainer, one instance per fit."""

    def __init__(self, model, lr=1e-3, n_steps_kl_warmup=4):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr, eps=0.01)
        self.n_steps_kl_warmup = n_steps_kl_warmup
        self.global_step = 0

    @property
    def kl_weight(self):
        return min(1.0, self.global_step / self.n_steps_kl_warmup)

    def training_step(self, counts, donor):
        rate, logit, mu, logvar = self.model(counts, donor)
        kl = 0.5 * (mu ** 2 + logvar.exp() - 1.0 - logvar).sum(1)
        loss = (zip_nll(counts, rate, logit) + self.kl_weight * kl).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.global_step += 1
        return loss


def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(2)
    cells = torch.from_numpy(rng.negative_binomial(2, 0.4, size=(113, GENES)).astype("float32"))
    donors = torch.from_numpy(rng.integers(0, DONORS, size=113))
    loader = DataLoader(TensorDataset(cells, donors), batch_size=24, shuffle=True)
    device = torch_xla.device()
    plan = Plan(CountVAE().to(device))
    torch_xla.sync()
    for epoch in range(2):
        for counts, donor in loader:
            plan.training_step(counts.to(device), donor.to(device))
            torch_xla.sync()
            print(epoch, plan.global_step, met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
