"""Sequence VAE over short melodies (pitch tokens), KL weight annealed over the first updates."""
import os
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PITCHES, T, EMB, HID, LAT = 20, 4, 8, 12, 6


class MelodyVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(PITCHES, EMB)
        self.enc = nn.Linear(T * EMB, HID)
        self.to_stats = nn.Linear(HID, 2 * LAT)
        self.from_z = nn.Linear(LAT, HID)
        self.dec = nn.GRUCell(EMB, HID)
        self.out = nn.Linear(HID, PITCHES)

    def encode(self, tok):
        h = F.silu(self.enc(self.emb(tok).flatten(1)))
        mu, logvar = self.to_stats(h).chunk(2, dim=-1)
        return mu, logvar.clamp(-8.0, 4.0)

    def decode(self, z, tok):
        h = torch.tanh(self.from_z(z))
        x = self.emb(tok)
        logits = []
        for t in range(T - 1):
            h = self.dec(x[:, t], h)
            logits.append(self.out(h))
        return torch.stack(logits, 1)


class BetaSchedule:
    def __init__(self, warmup):
        self.warmup = warmup
        self.n = 0

    def next(self):
        self.n += 1
        return min(1.0, self.n / self.warmup)


def free_bits(kl, floor=0.02):
    return torch.maximum(kl.mean(0), torch.full_like(kl[0], floor)).sum()


def train_step(model, opt, tok, eps, beta):
    opt.zero_grad()
    mu, logvar = model.encode(tok)
    z = mu + eps * torch.exp(0.5 * logvar)
    logits = model.decode(z, tok)
    rec = F.cross_entropy(logits.reshape(-1, PITCHES), tok[:, 1:].reshape(-1), reduction="none")
    rec = rec.view(tok.shape[0], T - 1).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp())
    kl = free_bits(kl)
    loss = rec + beta * kl
    loss.backward()
    opt.step()
    return loss.detach(), rec.detach(), kl.detach()


def main(outdir):
    torch.manual_seed(11)
    dev = torch_xla.device()
    model = MelodyVAE().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    beta = BetaSchedule(warmup=5)
    g = torch.Generator().manual_seed(2)
    for step in range(6):
        tok = torch.randint(0, PITCHES, (5, T), generator=g).to(dev)
        eps = torch.randn(5, LAT, generator=g).to(dev)
        loss, rec, kl = train_step(model, opt, tok, eps, beta.next())
        if step in (3, 4):
            live = [loss, rec, kl]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            name = {3: "a.hlo", 4: "b.hlo"}[step]
            with open(os.path.join(outdir, name), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), kl.item())


main(sys.argv[1])
