"""Negative-binomial VAE for single-cell counts, with a linear KL warm-up.

a.hlo: the step with index 3, b.hlo: the step with index 4 of one run.
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", HERE)
DUMPS = {3: "a.hlo", 4: "b.hlo"}
WARMUP = 5


class CountVAE(nn.Module):
    def __init__(self, genes=20, batches=2, hidden=14, latent=4):
        super().__init__()
        self.enc = nn.Linear(genes, hidden)
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.dec = nn.Linear(latent + batches, hidden)
        self.rate = nn.Linear(hidden, genes)
        self.log_theta = nn.Parameter(torch.zeros(genes))

    def forward(self, counts, batch, eps):
        library = counts.sum(dim=-1, keepdim=True)
        h = F.softplus(self.enc(torch.log1p(counts)))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + eps * torch.exp(0.5 * logvar)
        h = F.softplus(self.dec(torch.cat([z, batch], dim=-1)))
        mean = torch.softmax(self.rate(h), dim=-1) * library
        return mean, mu, logvar


def nb_nll(x, mean, log_theta, eps=1e-6):
    theta = torch.exp(log_theta)
    log_mix = torch.log(theta + mean + eps)
    ll = theta * (torch.log(theta + eps) - log_mix) + x * (torch.log(mean + eps) - log_mix)
    ll = ll + torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1.0)
    return -ll.sum(dim=-1)


def kl_weight(step):
    return min(1.0, (step + 1) / WARMUP)


def train_step(vae, opt, step, counts, batch, eps):
    opt.zero_grad(set_to_none=True)
    mean, mu, logvar = vae(counts, batch, eps)
    rec = nb_nll(counts, mean, vae.log_theta)
    kl = -0.5 * (1.0 + logvar - mu ** 2 - logvar.exp()).sum(dim=-1)
    loss = (rec + kl_weight(step) * kl).mean()
    loss.backward()
    opt.step()
    return loss


def main(steps=5):
    dev = torch_xla.device()
    torch.manual_seed(21)
    vae = CountVAE()
    data = [(torch.poisson(torch.rand(6, 20) * 4), torch.eye(2)[torch.randint(0, 2, (6,))], torch.randn(6, 4))
            for _ in range(steps)]
    vae = vae.to(dev)
    params = list(vae.parameters())
    opt = torch.optim.Adamax(params, lr=2e-3)
    for i, item in enumerate(data):
        loss = train_step(vae, opt, i, *(t.to(dev) for t in item))
        if i in DUMPS:
            live = params + [opt.state[p][k] for p in params for k in ("exp_avg", "exp_inf")] + [loss]
            with open(os.path.join(OUT, DUMPS[i]), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
