"""Sequence VAE over alarm codes of a plant: MLP encoder, GRU decoder, KL warm-up."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, EMB, HID, LAT, T, BATCH = 20, 12, 16, 6, 3, 8
WARMUP = 6
FREE_BITS = 0.002


class AlarmVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.enc = nn.Linear(T * EMB, HID)
        self.to_stats = nn.Linear(HID, 2 * LAT)
        self.z_to_h = nn.Linear(LAT, HID)
        self.dec = nn.GRUCell(EMB + LAT, HID)
        self.out = nn.Linear(HID, VOCAB)

    def forward(self, codes, eps):
        e = self.emb(codes)
        mu, logvar = self.to_stats(torch.tanh(self.enc(e.flatten(1)))).chunk(2, -1)
        z = mu + torch.exp(0.5 * logvar) * eps

        h = torch.tanh(self.z_to_h(z))
        logits = []
        prev = torch.zeros_like(e[:, 0])
        for t in range(T):
            h = self.dec(torch.cat([prev, z], -1), h)
            logits.append(self.out(h))
            prev = e[:, t]
        return torch.stack(logits, 1), mu, logvar


def kl_weight(step):
    """linear from 0 to 1 over WARMUP steps, then flat"""
    return min(1.0, step / WARMUP)


def elbo(logits, codes, mu, logvar, beta):
    rec = F.cross_entropy(logits.reshape(-1, VOCAB), codes.reshape(-1), reduction="sum") / codes.shape[0]
    kl_dim = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean(0)
    kl = torch.clamp(kl_dim, min=FREE_BITS).sum()
    return rec + beta * kl, rec.detach(), kl.detach()


def train_step(model, opt, codes, eps, step):
    opt.zero_grad()
    logits, mu, logvar = model(codes, eps)
    loss, rec, kl = elbo(logits, codes, mu, logvar, kl_weight(step))
    loss.backward()
    opt.step()
    return loss.detach(), rec, kl


def live(model, opt, extra):
    params = list(model.parameters())
    out = params + [p.grad for p in params]
    for p in params:
        out += [opt.state[p]["momentum_buffer"]]
    return out + list(extra)


def main(dumps):
    """dumps: pairs STEP=PATH"""
    where = dict((int(d.split("=")[0]), d.split("=")[1]) for d in dumps)
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = AlarmVAE().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(1)
    for step in range(9):
        codes = torch.randint(0, VOCAB, (BATCH, T), generator=gen).to(dev)
        eps = torch.randn(BATCH, LAT, generator=gen).to(dev)
        res = train_step(model, opt, codes, eps, step)
        if step in where:
            with open(where[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, res)))
        torch_xla.sync()
        print(step, [round(r.item(), 5) for r in res])


if __name__ == "__main__":
    main(sys.argv[1:])
