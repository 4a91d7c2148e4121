"""Sequence VAE for peptide strings: GRU encoder, conditional decoder, KL warm-up.

Usage: step.py OUT_A OUT_B  (dumps the graphs of two steps of the same run)
"""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OUTS = {4: sys.argv[1], 6: sys.argv[2]}
B, T, VOCAB, LATENT = 5, 4, 21, 6
WARMUP = 6


class GRULayer(nn.Module):
    def __init__(self, n_in, n_h):
        super().__init__()
        self.x2h = nn.Linear(n_in, 3 * n_h)
        self.h2h = nn.Linear(n_h, 3 * n_h)

    def forward(self, xs, h):
        ys = []
        for t in range(xs.size(1)):
            xr, xz, xn = self.x2h(xs[:, t]).chunk(3, dim=-1)
            hr, hz, hn = self.h2h(h).chunk(3, dim=-1)
            r = torch.sigmoid(xr + hr)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = n + z * (h - n)
            ys.append(h)
        return torch.stack(ys, dim=1), h


class PeptideVAE(nn.Module):
    def __init__(self, n_h=10):
        super().__init__()
        self.n_h = n_h
        self.emb = nn.Embedding(VOCAB, 8)
        self.enc = GRULayer(8, n_h)
        self.to_mu = nn.Linear(n_h, LATENT)
        self.to_logvar = nn.Linear(n_h, LATENT)
        self.dec1 = nn.Linear(LATENT, 24)
        self.dec2 = nn.Linear(24, T * VOCAB)

    def forward(self, tok, noise):
        h0 = torch.zeros(tok.size(0), self.n_h, device=tok.device)
        _, h = self.enc(self.emb(tok), h0)
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        z = mu + torch.exp(0.5 * logvar) * noise
        logits = self.dec2(F.silu(self.dec1(z))).view(-1, T, VOCAB)
        return logits, mu, logvar


def kl_weight(step):
    return min(1.0, step / WARMUP)


def elbo(logits, tok, mu, logvar, beta):
    rec = F.cross_entropy(logits.flatten(0, 1), tok.flatten(), reduction="sum") / tok.size(0)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1)
    kl = kl.clamp(min=0.05).mean()
    return rec + beta * kl, rec, kl


def main():
    torch.manual_seed(11)
    dev = torch_xla.device()
    model = PeptideVAE().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=1e-5)
    g = torch.Generator().manual_seed(5)
    for it in range(1, 8):
        tok = torch.randint(0, VOCAB, (B, T), generator=g).to(dev)
        noise = torch.randn(B, LATENT, generator=g).to(dev)
        opt.zero_grad(set_to_none=True)
        logits, mu, logvar = model(tok, noise)
        loss, rec, kl = elbo(logits, tok, mu, logvar, kl_weight(it))
        loss.backward()
        opt.step()
        if it in OUTS:
            tensors = [loss, rec, kl, logits, mu, logvar]
            for p in model.parameters():
                tensors += [p, p.grad, opt.state[p]["momentum_buffer"]]
            with open(OUTS[it], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(tensors))
        torch_xla.sync()
        print(it, kl_weight(it), loss.item(), rec.item(), kl.item())


if __name__ == "__main__":
    main()
