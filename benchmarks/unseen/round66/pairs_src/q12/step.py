"""Conditional VAE for single-cell expression counts (quasi-Poisson decoder)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_GENES, N_BATCHES, N_LATENT = 120, 4, 8


class Block(nn.Sequential):
    def __init__(self, n_in, n_out):
        super().__init__(nn.Linear(n_in, n_out), nn.LayerNorm(n_out), nn.SiLU())


class CellVAE(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.batch_emb = nn.Embedding(N_BATCHES, 6)
        self.encoder = nn.Sequential(Block(N_GENES + 6, hidden), Block(hidden, hidden))
        self.mu = nn.Linear(hidden, N_LATENT)
        self.logvar = nn.Linear(hidden, N_LATENT)
        self.decoder = nn.Sequential(Block(N_LATENT + 6, hidden), Block(hidden, hidden))
        self.rho = nn.Linear(hidden, N_GENES)
        self.log_dispersion = nn.Parameter(torch.zeros(N_GENES))

    def forward(self, counts, batch_id):
        b = self.batch_emb(batch_id)
        library = counts.sum(-1, keepdim=True)
        x = torch.log1p(counts / library * 1e4)
        h = self.encoder(torch.cat([x, b], -1))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        d = self.decoder(torch.cat([z, b], -1))
        mean = F.softmax(self.rho(d), -1) * library
        return mean, torch.sigmoid(self.log_dispersion), mu, logvar


def poisson_nll(x, mean, dispersion, eps=1e-6):
    ll = x * torch.log(mean + eps) - mean
    return -(ll * dispersion).sum(-1)


class LinearAnneal:
    def __init__(self, n_steps, final=1.0):
        self.n_steps, self.final = n_steps, final

    def __call__(self, step):
        return self.final * min((step + 1) / self.n_steps, 1.0)


def synthetic_counts(n, gen):
    rate = torch.distributions.Gamma(2.0, 0.5).sample((n, N_GENES))
    return torch.poisson(rate, generator=gen) + (torch.arange(N_GENES) == 0).float()


def main(steps=10, batch_size=32):
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    device = torch_xla.device()
    model = CellVAE().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95)
    kl_weight = LinearAnneal(n_steps=8)
    counts = synthetic_counts(batch_size * steps, gen)
    batches = torch.randint(N_BATCHES, (batch_size * steps,), generator=gen)
    torch_xla.sync()

    for step in range(steps):
        sl = slice(step * batch_size, (step + 1) * batch_size)
        x, b = counts[sl].to(device), batches[sl].to(device)
        opt.zero_grad(set_to_none=True)
        mean, dispersion, mu, logvar = model(x, b)
        recon = poisson_nll(x, mean, dispersion).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
        loss = recon + kl_weight(step) * kl
        loss.backward()
        xm.optimizer_step(opt, barrier=False)
        torch_xla.sync()
        print(step, round(loss.item(), 3), round(kl.item(), 3), flush=True)


if __name__ == "__main__":
    main()
