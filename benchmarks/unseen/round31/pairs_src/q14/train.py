"""Mult-VAE for implicit feedback (Liang et al. 2018), KL weight annealed, recall logged now and then."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ITEMS, USERS = 120, 256
HIDDEN, LATENT = 48, 16


class MultVAE(nn.Module):
    def __init__(self, p_drop=0.5):
        super().__init__()
        self.enc = nn.ModuleList([nn.Linear(ITEMS, HIDDEN), nn.Linear(HIDDEN, 2 * LATENT)])
        self.dec = nn.ModuleList([nn.Linear(LATENT, HIDDEN), nn.Linear(HIDDEN, ITEMS)])
        self.drop = nn.Dropout(p_drop)
        for m in [*self.enc, *self.dec]:
            nn.init.xavier_uniform_(m.weight)
            nn.init.normal_(m.bias, std=1e-3)

    def encode(self, x):
        h = self.drop(F.normalize(x, dim=1))
        h = torch.tanh(self.enc[0](h))
        mu, logvar = self.enc[1](h).chunk(2, dim=1)
        return mu, logvar

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        h = torch.tanh(self.dec[0](z))
        return self.dec[1](h), mu, logvar


def elbo(logits, x, mu, logvar, anneal):
    nll = -(F.log_softmax(logits, 1) * x).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return nll + anneal * kl, nll, kl


def recall_at_k(logits, x, held, k):
    scores = logits.masked_fill(x > 0, float("-inf"))
    top = scores.topk(k, dim=1).indices
    hits = torch.gather(held, 1, top).sum(1)
    return (hits / held.sum(1).clamp(1, k)).mean()


class Meter:
    def __init__(self):
        self.sums, self.n = {}, 0

    def update(self, **kw):
        for k, v in kw.items():
            self.sums[k] = self.sums.get(k, 0.0) + v.detach()
        self.n += 1

    def flush(self):
        out = {k: (v / self.n).item() for k, v in self.sums.items()}
        self.sums, self.n = {}, 0
        return out


def interactions(seed=0):
    g = np.random.default_rng(seed)
    u, v = g.normal(size=(USERS, 6)), g.normal(size=(ITEMS, 6))
    p = 1 / (1 + np.exp(-(u @ v.T - 2.0)))
    full = (g.random(p.shape) < p).astype(np.float32)
    keep = g.random(p.shape) < 0.8
    return full * keep, full * ~keep


def train(epochs=3, batch_size=32, total_anneal_steps=12, anneal_cap=1.0, log_every=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    seen, held = interactions()
    model = MultVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    meter = Meter()
    torch_xla.sync()

    rng = np.random.default_rng(1)
    step = 0
    for epoch in range(epochs):
        model.train()
        order = rng.permutation(USERS)
        for lo in range(0, USERS, batch_size):
            rows = order[lo:lo + batch_size]
            x = torch.from_numpy(seen[rows]).to(device)
            step += 1
            anneal = min(anneal_cap, step / total_anneal_steps)
            logits, mu, logvar = model(x)
            loss, nll, kl = elbo(logits, x, mu, logvar, anneal)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            meter.update(nll=nll, kl=kl)
            if step % log_every == 0:
                h = torch.from_numpy(held[rows].astype(np.float32)).to(device)
                with torch.no_grad():
                    meter.update(recall=recall_at_k(logits, x, h, 20))
            torch_xla.sync()
            if step % log_every == 0:
                print(epoch, step, meter.flush())


if __name__ == "__main__":
    train()
