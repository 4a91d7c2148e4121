"""Mult-VAE for library loans (implicit feedback), KL weight annealed over the first steps.

usage: step.py A.hlo B.hlo      (the graphs of step 4 and of step 5 of one run)
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ITEM, HID, LATENT, BATCH = 30, 12, 4, 6
ANNEAL_STEPS, KL_CAP = 5, 1.0


class MultVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(N_ITEM, HID)
        self.enc_norm = nn.LayerNorm(HID)
        self.mu = nn.Linear(HID, LATENT)
        self.logvar = nn.Linear(HID, LATENT)
        self.dec1 = nn.Linear(LATENT, HID)
        self.dec2 = nn.Linear(HID, N_ITEM)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        h = self.drop(F.normalize(x, dim=-1))
        h = torch.tanh(self.enc_norm(self.enc(h)))
        mu, logvar = self.mu(h), self.logvar(h).clamp(-6.0, 4.0)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        logits = self.dec2(torch.tanh(self.dec1(z)))
        return logits, mu, logvar


def elbo_terms(logits, x, mu, logvar):
    nll = -(F.log_softmax(logits, dim=-1) * x).sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return nll, kl


class Trainer:
    def __init__(self, dev):
        self.model = MultVAE().to(dev)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=3e-3, weight_decay=1e-4)
        self.updates = 0
        self.avg_kl = torch.zeros((), device=dev)

    def kl_weight(self):
        return min(KL_CAP, self.updates / ANNEAL_STEPS)

    def step(self, x):
        self.opt.zero_grad()
        logits, mu, logvar = self.model(x)
        nll, kl = elbo_terms(logits, x, mu, logvar)
        loss = nll + self.kl_weight() * kl
        loss.backward()
        self.opt.step()
        self.avg_kl = 0.9 * self.avg_kl + 0.1 * kl.detach()
        self.updates += 1
        return loss, nll, kl

    def live(self, outs):
        ts = list(outs) + [self.avg_kl]
        for p in self.model.parameters():
            st = self.opt.state[p]
            ts += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
        return ts


def main(paths, steps=7):
    torch.manual_seed(3)
    dev = torch_xla.device()
    trainer = Trainer(dev)
    g = torch.Generator().manual_seed(8)
    for step in range(steps):
        x = (torch.rand(BATCH, N_ITEM, generator=g) < 0.2).float().to(dev)
        outs = trainer.step(x)
        if step in (4, 5):
            text = torch_xla._XLAC._get_xla_tensors_hlo(trainer.live(outs))
            with open(paths[step - 4], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, [round(o.item(), 4) for o in outs])


if __name__ == "__main__":
    main(sys.argv[1:3])
