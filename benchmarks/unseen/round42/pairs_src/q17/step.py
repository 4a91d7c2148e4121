"""Variational autoencoder for count matrices (zero-inflated Poisson), one covariate (batch id).

usage: step.py a.hlo b.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GENES, HID, Z, N_BATCH, B = 14, 12, 4, 3, 6
WARMUP = 8
DUMP_AT = (7, 8)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(GENES + N_BATCH, HID)
        self.norm = nn.LayerNorm(HID)
        self.mu = nn.Linear(HID, Z)
        self.logvar = nn.Linear(HID, Z)

    def forward(self, counts, onehot):
        h = self.fc(torch.cat([torch.log1p(counts), onehot], -1))
        h = F.silu(self.norm(h))
        return self.mu(h), self.logvar(h).clamp(-6, 4)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z + N_BATCH, HID)
        self.scale = nn.Linear(HID, GENES)
        self.drop = nn.Linear(HID, GENES)

    def forward(self, z, onehot, lib):
        h = F.silu(self.fc(torch.cat([z, onehot], -1)))
        log_rate = F.log_softmax(self.scale(h), -1) + lib
        return log_rate, self.drop(h)


def zip_nll(counts, log_rate, pi_logit):
    """-log p(counts), without the factorial term"""
    rate = log_rate.exp()
    is_zero = (counts < 0.5).float()
    log_pi, log_1mpi = F.logsigmoid(pi_logit), F.logsigmoid(-pi_logit)
    zero = torch.logaddexp(log_pi, log_1mpi - rate)
    pos = log_1mpi + counts * log_rate - rate
    return -(is_zero * zero + (1 - is_zero) * pos).sum(-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = Encoder(), Decoder()

    def forward(self, counts, onehot, eps):
        mu, logvar = self.enc(counts, onehot)
        z = mu + (0.5 * logvar).exp() * eps
        lib = counts.sum(-1, keepdim=True).log()
        nll = zip_nll(counts, *self.dec(z, onehot, lib))
        kl = 0.5 * (mu.square() + logvar.exp() - 1.0 - logvar).sum(-1)
        return nll.mean(), kl.mean()


def batch(gen, dev):
    rate = torch.rand(B, GENES, generator=gen) * 5
    counts = torch.poisson(rate, generator=gen)
    counts[:, 0] += 1                                # no empty cell
    ids = torch.randint(0, N_BATCH, (B,), generator=gen)
    onehot = F.one_hot(ids, N_BATCH).float()
    eps = torch.randn(B, Z, generator=gen)
    return [v.to(dev) for v in (counts, onehot, eps)]


def main(paths):
    dev = torch_xla.device()
    torch.manual_seed(51)
    gen = torch.Generator().manual_seed(52)
    model = Model().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.9, centered=True, foreach=False)
    torch_xla.sync()
    out = dict(zip(DUMP_AT, paths))
    for i in range(10):
        counts, onehot, eps = batch(gen, dev)
        beta = min(1.0, i / WARMUP)
        opt.zero_grad()
        nll, kl = model(counts, onehot, eps)
        loss = nll + beta * kl
        loss.backward()
        opt.step()
        live = [loss.detach(), nll.detach(), kl.detach()]
        for p in model.parameters():
            st = opt.state[p]
            live += [p, p.grad, st["square_avg"], st["grad_avg"], st["momentum_buffer"]]
        if i in out:
            with open(out[i], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, beta, nll.item(), kl.item())


if __name__ == "__main__":
    main(sys.argv[1:3])
