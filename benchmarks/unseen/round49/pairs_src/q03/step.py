"""Collaborative filtering with a variational autoencoder (multinomial likelihood),
KL annealed over the first updates. Dumps the graphs of update 4 and of update 5."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ITEMS = 48
ANNEAL_STEPS = 5
ANNEAL_CAP = 1.0


class MultVAE(nn.Module):
    def __init__(self, hidden=20, latent=6):
        super().__init__()
        self.q1 = nn.Linear(ITEMS, hidden)
        self.q2 = nn.Linear(hidden, 2 * latent)
        self.p1 = nn.Linear(latent, hidden)
        self.p2 = nn.Linear(hidden, ITEMS)
        self.latent = latent
        for m in (self.q1, self.q2, self.p1, self.p2):
            nn.init.xavier_normal_(m.weight)
            nn.init.normal_(m.bias, 0.0, 1e-3)

    def encode(self, x):
        h = F.normalize(x)
        h = F.dropout(h, 0.5, self.training)
        h = torch.tanh(self.q1(h))
        return self.q2(h).split(self.latent, dim=1)

    def decode(self, z):
        return self.p2(torch.tanh(self.p1(z)))

    def forward(self, x):
        mu, logvar = self.encode(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.decode(z), mu, logvar


def elbo_terms(logits, x, mu, logvar):
    neg_ll = -(F.log_softmax(logits, dim=1) * x).sum(dim=1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return neg_ll, kl


class Trainer:
    def __init__(self, dev):
        self.net = MultVAE().to(dev).train()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3, betas=(0.9, 0.98))
        self.updates = 0
        self.running = torch.zeros(2, device=dev)

    def beta(self):
        return min(ANNEAL_CAP, self.updates / ANNEAL_STEPS)

    def update(self, x):
        logits, mu, logvar = self.net(x)
        neg_ll, kl = elbo_terms(logits, x, mu, logvar)
        loss = neg_ll + self.beta() * kl
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            self.running.mul_(0.97).add_(torch.stack([neg_ll, kl]), alpha=0.03)
        self.updates += 1
        return loss

    def live(self):
        out = [self.running]
        for p in self.net.parameters():
            s = self.opt.state[p]
            out += [p, p.grad, s['exp_avg'], s['exp_avg_sq']]
        return out


def main(path_a, path_b):
    torch.manual_seed(1)
    dev = xm.xla_device()
    xm.set_rng_state(17)
    tr = Trainer(dev)
    g = torch.Generator().manual_seed(2)
    dump = {4: path_a, 5: path_b}
    for it in range(6):
        x = (torch.rand(10, ITEMS, generator=g) < 0.2).float().to(dev)
        loss = tr.update(x)
        if it in dump:
            with open(dump[it], 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([loss] + tr.live()))
        xm.mark_step()
        print(it, loss.item(), tr.running.tolist())


if __name__ == '__main__':
    main(*sys.argv[1:3])
