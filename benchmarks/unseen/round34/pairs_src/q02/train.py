"""Count VAE (Poisson) for single-cell expression, trained on XLA devices."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GENES, LATENT, HIDDEN, BATCHES = 40, 6, 24, 3


def fc(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LayerNorm(o), nn.ReLU())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = fc(GENES + BATCHES, HIDDEN)
        self.loc = nn.Linear(HIDDEN, LATENT)
        self.logvar = nn.Linear(HIDDEN, LATENT)

    def forward(self, x, b):
        h = self.body(torch.cat([torch.log1p(x), b], -1))
        return self.loc(h), self.logvar(h).clamp(-8, 8)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = fc(LATENT + BATCHES, HIDDEN)
        self.scale = nn.Linear(HIDDEN, GENES)

    def forward(self, z, b, library):
        rho = F.softmax(self.scale(self.body(torch.cat([z, b], -1))), dim=-1)
        return rho * library


class CellVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = Encoder(), Decoder()

    def forward(self, x, batch):
        b = F.one_hot(batch, BATCHES).float()
        loc, logvar = self.enc(x, b)
        z = loc + torch.randn_like(loc) * (0.5 * logvar).exp()
        mu = self.dec(z, b, x.sum(-1, keepdim=True))
        rec = F.poisson_nll_loss(mu, x, log_input=False, reduction="none").sum(-1)
        kl = 0.5 * (loc.pow(2) + logvar.exp() - 1 - logvar).sum(-1)
        return rec, kl


class WarmupPlan:
    """Linear KL warm-up over epochs and a cosine learning rate over all steps."""

    def __init__(self, opt, n_epochs_kl, total, base_lr):
        self.opt, self.n_kl, self.total, self.base = opt, n_epochs_kl, total, base_lr

    def kl_weight(self, epoch):
        return min(1.0, (epoch + 1) / self.n_kl)

    def set_lr(self, step):
        lr = self.base * (0.1 + 0.45 * (1 + math.cos(math.pi * step / self.total)))
        for g in self.opt.param_groups:
            g["lr"] = lr


def cells(n, seed=0):
    r = np.random.RandomState(seed)
    prog = r.gamma(1.0, 1.0, (4, GENES))
    mix = r.dirichlet(np.ones(4) * 0.5, n)
    x = r.poisson(mix @ prog * r.uniform(1, 4, (n, 1))).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(r.randint(0, BATCHES, n))


def main(epochs=5, bs=32):
    torch.manual_seed(1)
    dev = torch_xla.device()
    x, batch = cells(96)
    model = CellVAE().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, eps=0.01, weight_decay=1e-6)
    per_epoch = len(x) // bs
    plan = WarmupPlan(opt, 4, epochs * per_epoch, 2e-3)
    step = 0
    for epoch in range(epochs):
        w = plan.kl_weight(epoch)
        perm = torch.randperm(len(x))
        for i in range(per_epoch):
            ids = perm[i * bs:(i + 1) * bs]
            plan.set_lr(step)
            rec, kl = model(x[ids].to(dev), batch[ids].to(dev))
            loss = (rec + w * kl).mean()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), 5.0)
            opt.step()
            xm.mark_step()
            step += 1
        print(f"epoch {epoch} elbo {-loss.item():.3f}")


if __name__ == "__main__":
    main()
