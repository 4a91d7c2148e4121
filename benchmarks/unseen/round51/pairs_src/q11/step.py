"""Latent-variable joint species distribution model: sites x species abundance
counts, zero-inflated Poisson decoder, amortised posterior on the site factors."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_SPECIES, N_COV, N_LATENT, HIDDEN = 24, 6, 5, 20
BATCH = 16
WARMUP_STEPS = 4


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(N_SPECIES + N_COV, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.mu = nn.Linear(HIDDEN, N_LATENT)
        self.logvar = nn.Linear(HIDDEN, N_LATENT)

    def forward(self, counts, cov):
        h = torch.cat([torch.log1p(counts), cov], dim=-1)
        h = F.gelu(self.norm1(self.fc1(h)))
        h = F.gelu(self.fc2(h)) + h
        return self.mu(h), self.logvar(h).clamp(-8.0, 4.0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.env = nn.Linear(N_COV, HIDDEN)
        self.loadings = nn.Linear(N_LATENT, HIDDEN, bias=False)
        self.log_rate = nn.Linear(HIDDEN, N_SPECIES)
        self.dropout_logit = nn.Linear(HIDDEN, N_SPECIES)

    def forward(self, z, cov, log_effort):
        h = torch.tanh(self.env(cov) + self.loadings(z))
        return self.log_rate(h) + log_effort, self.dropout_logit(h)


def zip_nll(counts, log_rate, pi_logit):
    rate = torch.exp(log_rate)
    log_pi = F.logsigmoid(pi_logit)
    log_not_pi = F.logsigmoid(-pi_logit)
    at_zero = torch.logsumexp(torch.stack([log_pi, log_not_pi - rate]), dim=0)
    positive = log_not_pi + counts * log_rate - rate
    ll = torch.where(counts > 0, positive, at_zero)
    return -ll.sum(dim=-1)


def kl_normal(mu, logvar):
    return 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar).sum(dim=-1)


def kl_weight(step):
    return min(1.0, step / WARMUP_STEPS)


def make_batch(gen, device):
    cov = torch.randn(BATCH, N_COV, generator=gen)
    counts = torch.poisson(torch.exp(0.7 * torch.randn(BATCH, N_SPECIES, generator=gen)), generator=gen)
    keep = (torch.rand(BATCH, N_SPECIES, generator=gen) > 0.4).float()
    effort = torch.log(1.0 + 3.0 * torch.rand(BATCH, 1, generator=gen))
    return (counts * keep).to(device), cov.to(device), effort.to(device)


def main():
    out = {3: sys.argv[1], 4: sys.argv[2]} if len(sys.argv) > 2 else {}
    device = torch_xla.device()
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(5)
    xm.set_rng_state(11)
    enc, dec = Encoder().to(device), Decoder().to(device)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=3e-3, betas=(0.9, 0.98))
    torch_xla.sync()

    for step in range(1, 5):
        counts, cov, log_effort = make_batch(gen, device)
        mu, logvar = enc(counts, cov)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        log_rate, pi_logit = dec(z, cov, log_effort)
        rec = zip_nll(counts, log_rate, pi_logit).mean()
        kl = kl_normal(mu, logvar).mean()
        loss = rec + kl_weight(step) * kl
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step in out:
            live = [loss, rec, kl] + [p.data for p in params]
            for p in params:
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), rec.item(), kl.item())


if __name__ == "__main__":
    main()
