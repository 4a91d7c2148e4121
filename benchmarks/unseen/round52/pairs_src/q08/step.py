"""Single-cell counts: conditional VAE, negative binomial likelihood, KL warm-up over the first steps.

The HLO of two steps of the run is kept (a.hlo, b.hlo).
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES, BATCHES, HIDDEN, LATENT, CELLS = 9, 3, 10, 4, 5
WARMUP = 4
KEEP = {3: "a.hlo", 4: "b.hlo"}


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(GENES + BATCHES, HIDDEN)
        self.enc_norm = nn.LayerNorm(HIDDEN)
        self.mu = nn.Linear(HIDDEN, LATENT)
        self.logvar = nn.Linear(HIDDEN, LATENT)
        self.dec = nn.Linear(LATENT + BATCHES, HIDDEN)
        self.rate = nn.Linear(HIDDEN, GENES)
        self.log_theta = nn.Parameter(torch.zeros(GENES))

    def forward(self, counts, batch, noise):
        size = counts.sum(dim=1, keepdim=True)
        x = torch.log1p(counts / size * 1e4)
        h = F.leaky_relu(self.enc_norm(self.enc(torch.cat([x, batch], dim=1))))
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.exp(0.5 * logvar) * noise
        d = F.leaky_relu(self.dec(torch.cat([z, batch], dim=1)))
        rate = torch.softmax(self.rate(d), dim=1) * size
        return mu, logvar, rate, self.log_theta.exp()


def nb_log_prob(x, mu, theta, eps=1e-8):
    log_theta_mu = torch.log(theta + mu + eps)
    return (theta * (torch.log(theta + eps) - log_theta_mu)
            + x * (torch.log(mu + eps) - log_theta_mu)
            + torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1))


def elbo_loss(model, counts, batch, noise, beta):
    mu, logvar, rate, theta = model(counts, batch, noise)
    recon = -nb_log_prob(counts, rate, theta).sum(dim=1)
    kl = 0.5 * (mu ** 2 + logvar.exp() - 1.0 - logvar).sum(dim=1)
    return (recon + beta * kl).mean(), recon.mean(), kl.mean()


def train(steps=5):
    torch.manual_seed(31)
    device = torch_xla.device()
    model = CountVAE()
    data = [(torch.poisson(torch.rand(CELLS, GENES) * 8) + 1,
             F.one_hot(torch.randint(BATCHES, (CELLS,)), BATCHES).float(),
             torch.randn(CELLS, LATENT)) for _ in range(steps)]
    model.to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    history = []
    for step, batch in enumerate(data, start=1):
        counts, onehot, noise = (x.to(device) for x in batch)
        beta = min(1.0, step / WARMUP)
        opt.zero_grad()
        loss, recon, kl = elbo_loss(model, counts, onehot, noise, beta)
        loss.backward()
        opt.step()
        logs = [loss.detach(), recon.detach(), kl.detach()]
        if step in KEEP and "--dump" in sys.argv:
            live = list(logs)
            for p in model.parameters():
                s = opt.state[p]
                live += [p, p.grad, s["square_avg"], s["momentum_buffer"]]
            with open(KEEP[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        history.append((beta, [round(x.item(), 4) for x in logs]))
    return history


if __name__ == "__main__":
    print(train())
