"""Count autoencoder for single-cell expression (zero-inflated Poisson likelihood)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

GENES, BATCHES, LATENT, HID = 120, 3, 6, 32


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(GENES + BATCHES, HID), nn.LayerNorm(HID), nn.ReLU())
        self.mean = nn.Linear(HID, LATENT)
        self.logvar = nn.Linear(HID, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT + BATCHES, HID), nn.LayerNorm(HID), nn.ReLU())
        self.scale = nn.Linear(HID, GENES)
        self.dropout_logit = nn.Linear(HID, GENES)

    def forward(self, counts, onehot):
        lib = counts.sum(1, keepdim=True)
        h = self.enc(torch.cat([torch.log1p(counts), onehot], 1))
        mu, logvar = self.mean(h), self.logvar(h).clamp(-8, 4)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        d = self.dec(torch.cat([z, onehot], 1))
        rate = lib * torch.softmax(self.scale(d), dim=1)
        return rate, self.dropout_logit(d), mu, logvar


def zip_nll(x, rate, pi_logit, eps=1e-8):
    softplus = F.softplus(-pi_logit)
    at_zero = F.softplus(-pi_logit - rate) - softplus
    above = x * torch.log(rate + eps) - rate - pi_logit - softplus
    ll = torch.where(x < 0.5, at_zero, above)
    return -ll.sum(1).mean()


def kl_normal(mu, logvar):
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()


def cyclic_beta(step, period=8, ramp=0.5, top=0.6):
    phase = (step % period) / (period * ramp)
    return top * min(phase, 1.0)


def cells(n, rng, batch=48):
    base = rng.gamma(0.6, 3.0, GENES)
    for _ in range(n):
        counts = rng.poisson(base * rng.gamma(2.0, 0.5, (batch, 1))).astype(np.float32)
        counts[:, 0] += 1
        onehot = np.eye(BATCHES, dtype=np.float32)[rng.integers(0, BATCHES, batch)]
        yield torch.from_numpy(counts), torch.from_numpy(onehot)


def main(steps=12):
    torch.manual_seed(3)
    dev = xm.xla_device()
    model = CountVAE().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for step, (counts, onehot) in enumerate(cells(steps, np.random.default_rng(8))):
        counts, onehot = counts.to(dev), onehot.to(dev)
        beta = cyclic_beta(step)
        opt.zero_grad()
        rate, pi_logit, mu, logvar = model(counts, onehot)
        loss = zip_nll(counts, rate, pi_logit) + beta * kl_normal(mu, logvar)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.3f} compiles {met.counter_value('UncachedCompile') or 0}")


if __name__ == "__main__":
    main()
