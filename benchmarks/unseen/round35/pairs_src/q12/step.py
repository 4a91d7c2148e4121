"""Negative binomial VAE for single cell counts, with KL warm-up."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES = 20
LATENT = 4
HIDDEN = 16
BATCH = 12
WARMUP = 4


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(GENES, HIDDEN)
        self.enc_norm = nn.LayerNorm(HIDDEN)
        self.mu = nn.Linear(HIDDEN, LATENT)
        self.log_var = nn.Linear(HIDDEN, LATENT)
        self.dec = nn.Linear(LATENT + 1, HIDDEN)
        self.rho = nn.Linear(HIDDEN, GENES)
        self.log_theta = nn.Parameter(torch.zeros(GENES))

    def forward(self, counts, eps):
        library = counts.sum(dim=1, keepdim=True)
        log_lib = torch.log(library + 1.0)
        h = F.relu(self.enc_norm(self.enc(torch.log1p(counts))))
        mu = self.mu(h)
        log_var = self.log_var(h).clamp(-6.0, 4.0)
        z = mu + torch.exp(0.5 * log_var) * eps
        d = F.elu(self.dec(torch.cat([z, log_lib], dim=1)))
        rate = library * torch.softmax(self.rho(d), dim=1)
        return mu, log_var, rate, torch.exp(self.log_theta)


def nb_nll(counts, rate, theta, eps=1e-8):
    log_theta_rate = torch.log(theta + rate + eps)
    ll = (theta * (torch.log(theta + eps) - log_theta_rate)
          + counts * (torch.log(rate + eps) - log_theta_rate)
          + torch.lgamma(counts + theta)
          - torch.lgamma(theta)
          - torch.lgamma(counts + 1.0))
    return -ll.sum(dim=1)


def train_step(model, opt, counts, eps, step):
    kl_weight = min(1.0, step / WARMUP)
    mu, log_var, rate, theta = model(counts, eps)
    kl = -0.5 * (1.0 + log_var - mu * mu - torch.exp(log_var)).sum(dim=1)
    rec = nb_nll(counts, rate, theta)
    loss = (rec + kl_weight * kl).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss, rec.mean().detach(), kl.mean().detach()


def live(model, opt, extra):
    out = []
    for p in model.parameters():
        st = opt.state[p]
        out += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
    return out + extra


def main(dumps):
    torch.manual_seed(1)
    device = torch_xla.device()
    model = CountVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6)
    g = torch.Generator().manual_seed(3)
    for step in range(6):
        counts = torch.poisson(torch.rand(BATCH, GENES, generator=g) * 6, generator=g).to(device)
        eps = torch.randn(BATCH, LATENT, generator=g).to(device)
        loss, rec, kl = train_step(model, opt, counts, eps, step)
        if step in dumps:
            with open(dumps[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, rec, kl])))
        torch_xla.sync()
        print(step, loss.item(), rec.item(), kl.item())


if __name__ == "__main__":
    a, b = (sys.argv[1:3] + [None, None])[:2]
    main({3: a, 4: b} if a else {})
