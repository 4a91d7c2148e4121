"""Mult-VAE (Liang et al.) on implicit feedback, KL annealed over the first updates."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class MultVAE(nn.Module):
    def __init__(self, n_items, hidden=24, latent=8, dropout=0.5):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.q1 = nn.Linear(n_items, hidden)
        self.q2 = nn.Linear(hidden, 2 * latent)
        self.p1 = nn.Linear(latent, hidden)
        self.p2 = nn.Linear(hidden, n_items)
        self.latent = latent
        for layer in (self.q1, self.q2, self.p1, self.p2):
            nn.init.xavier_normal_(layer.weight)
            nn.init.trunc_normal_(layer.bias, std=0.001)

    def forward(self, x):
        h = self.drop(F.normalize(x, dim=1))
        h = torch.tanh(self.q1(h))
        mu, logvar = self.q2(h).split(self.latent, dim=1)
        if self.training:
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        else:
            z = mu
        return self.p2(torch.tanh(self.p1(z))), mu, logvar


def elbo(logits, x, mu, logvar, anneal):
    nll = -(F.log_softmax(logits, dim=1) * x).sum(1).mean()
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return nll + anneal * kld, nll, kld


class Config:
    n_users, n_items = 96, 40
    batch_size = 16
    epochs = 2
    total_anneal_steps = 8
    anneal_cap = 1.0
    lr = 2e-3
    wd = 0.01


def interactions(cfg, rng):
    taste = rng.normal(size=(cfg.n_users, 4)) @ rng.normal(size=(4, cfg.n_items))
    return (taste + rng.gumbel(size=taste.shape) > 1.2).astype(np.float32)


def train(cfg):
    torch.manual_seed(1)
    rng = np.random.default_rng(98765)
    device = xm.xla_device()
    clicks = interactions(cfg, rng)
    model = MultVAE(cfg.n_items).to(device)
    decay = [p for n, p in model.named_parameters() if n.endswith("weight")]
    plain = [p for n, p in model.named_parameters() if n.endswith("bias")]
    opt = torch.optim.Adam([{"params": decay, "weight_decay": cfg.wd}, {"params": plain}], lr=cfg.lr)
    torch_xla.sync()

    update_count = 0
    for epoch in range(cfg.epochs):
        model.train()
        order = rng.permutation(cfg.n_users)
        running = torch.zeros((), device=device)
        for start in range(0, cfg.n_users, cfg.batch_size):
            x = torch.from_numpy(clicks[order[start:start + cfg.batch_size]]).to(device)
            if cfg.total_anneal_steps > 0:
                anneal = min(cfg.anneal_cap, update_count / cfg.total_anneal_steps)
            else:
                anneal = cfg.anneal_cap

            opt.zero_grad()
            logits, mu, logvar = model(x)
            loss, nll, kld = elbo(logits, x, mu, logvar, anneal)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()

            running += nll.detach()
            update_count += 1
            torch_xla.sync()
        print(f"epoch {epoch} nll {running.item() / (cfg.n_users // cfg.batch_size):.4f} anneal {anneal:.3f}")


if __name__ == "__main__":
    train(Config())
