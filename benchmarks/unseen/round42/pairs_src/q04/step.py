"""Gaussian VAE over gene-expression counts (negative binomial likelihood), KL warm-up, NAdam.

Writes the HLO of two steps of the same run: step.py <out_step_4> <out_step_5>
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES, LATENT, BATCH, N_BATCHES = 14, 3, 6, 2
WARMUP_STEPS = 5


class CountVAE(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(GENES + N_BATCHES, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, LATENT)
        self.logvar = nn.Linear(hidden, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT + N_BATCHES, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.frac = nn.Linear(hidden, GENES)
        self.log_theta = nn.Parameter(torch.randn(GENES) * 0.1)

    def forward(self, x, cov, noise):
        h = self.enc(torch.cat([torch.log1p(x), cov], dim=1))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + noise * torch.exp(0.5 * logvar)
        d = self.dec(torch.cat([z, cov], dim=1))
        library = x.sum(dim=1, keepdim=True)
        rate = library * F.softmax(self.frac(d), dim=1)
        return rate, self.log_theta.exp(), mu, logvar


def nb_log_prob(x, rate, theta, eps=1e-8):
    log_theta_mu = torch.log(theta + rate + eps)
    return (theta * (torch.log(theta + eps) - log_theta_mu)
            + x * (torch.log(rate + eps) - log_theta_mu)
            + torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1.0))


def elbo(out, x, kl_weight):
    rate, theta, mu, logvar = out
    rec = -nb_log_prob(x, rate, theta).sum(dim=1)
    kl = 0.5 * (mu.pow(2) + logvar.exp() - logvar - 1.0).sum(dim=1)
    return (rec + kl_weight * kl).mean(), rec.detach().mean(), kl.detach().mean()


def main():
    torch.manual_seed(5)
    dev = torch_xla.device()
    model = CountVAE().to(dev)
    params = list(model.parameters())
    opt = torch.optim.NAdam(params, lr=1e-3, foreach=False)

    for it in range(1, 7):
        kl_weight = min(1.0, it / WARMUP_STEPS)
        x = torch.poisson(torch.rand(BATCH, GENES) * 8 + 0.5).to(dev)
        cov = F.one_hot(torch.randint(0, N_BATCHES, (BATCH,)), N_BATCHES).float().to(dev)
        noise = torch.randn(BATCH, LATENT).to(dev)

        opt.zero_grad(set_to_none=True)
        loss, rec, kl = elbo(model(x, cov, noise), x, kl_weight)
        loss.backward()
        opt.step()

        if it in (4, 5):
            live = [loss, rec, kl] + params
            live += [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")]
            open(sys.argv[it - 3], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, kl_weight, loss.item(), rec.item(), kl.item())


main()
