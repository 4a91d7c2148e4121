"""Count VAE for droplet single-cell data (Poisson likelihood, batch covariate), warm-up on the KL term.

Writes the graph of two consecutive steps of the same run.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES, LATENT, BATCHES = 30, 4, 2
WARMUP_STEPS = 5


class CellVAE(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.enc = nn.Linear(GENES + BATCHES, hidden)
        self.mu = nn.Linear(hidden, LATENT)
        self.logvar = nn.Linear(hidden, LATENT)
        self.dec = nn.Linear(LATENT + BATCHES, hidden)
        self.out = nn.Linear(hidden, GENES)

    def forward(self, counts, site, noise):
        lib = counts.sum(1, keepdim=True)
        x = torch.cat([torch.log1p(counts), site], dim=1)
        h = F.elu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8.0, 8.0)
        z = mu + noise * torch.exp(0.5 * logvar)
        d = F.elu(self.dec(torch.cat([z, site], dim=1)))
        rate = lib * F.softmax(self.out(d), dim=1)
        return rate, mu, logvar


def elbo(rate, counts, mu, logvar, kl_weight):
    nll = (rate - counts * torch.log(rate + 1e-8)).sum(1)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
    return nll.mean() + kl_weight * kl.mean(), nll.mean(), kl.mean()


def kl_schedule(step):
    return min(1.0, (step + 1) / WARMUP_STEPS)


def main(out_a, out_b):
    torch.manual_seed(3)
    dev = torch_xla.device()
    model = CellVAE().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95)
    for step in range(6):
        counts = torch.poisson(torch.rand(12, GENES) * 4).to(dev)
        site = F.one_hot(torch.randint(0, BATCHES, (12,)), BATCHES).float().to(dev)
        noise = torch.randn(12, LATENT).to(dev)
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        rate, mu, logvar = model(counts, site, noise)
        loss, nll, kl = elbo(rate, counts, mu, logvar, kl_schedule(step))
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 5.0)
        opt.step()
        logs = [loss.detach(), nll.detach(), kl.detach()]
        live = list(logs)
        for p in model.parameters():
            live += [p, p.grad, opt.state[p]["square_avg"]]
        path = {3: out_a, 4: out_b}.get(step)
        if path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        del rate, mu, logvar, loss, nll, kl
        torch_xla.sync()
        print(step, kl_schedule(step), [t.item() for t in logs])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
