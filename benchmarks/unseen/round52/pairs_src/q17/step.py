"""Variational autoencoder over short peptide strings (GRU encoder,
convolutional decoder), KL weight raised over the first steps."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ALPHABET = 12
LENGTH = 6
ANNEAL = 4
FREE_BITS = 0.02


class Cell(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.x = nn.Linear(n_in, 3 * width)
        self.h = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        return (1 - z) * n + z * h


class PeptideVAE(nn.Module):
    def __init__(self, width=12, latent=5):
        super().__init__()
        self.emb = nn.Embedding(ALPHABET, width)
        self.cell = Cell(width, width)
        self.stats = nn.Linear(width, 2 * latent)
        self.spread = nn.Linear(latent, width * LENGTH)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Conv1d(width, ALPHABET, 1)

    def encode(self, s):
        x = self.emb(s)
        h = x.new_zeros(x.shape[0], x.shape[-1])
        for t in range(LENGTH):
            h = self.cell(x[:, t], h)
        return self.stats(h).chunk(2, -1)

    def decode(self, z):
        h = self.spread(z).view(z.shape[0], -1, LENGTH)
        return self.out(F.gelu(self.conv(h)))

    def forward(self, s, eps):
        mu, log_var = self.encode(s)
        z = mu + eps * torch.exp(0.5 * log_var)
        return self.decode(z), mu, log_var


def kl_weight(step):
    return min(1.0, (step + 1) / ANNEAL)


def elbo(logits, s, mu, log_var, beta):
    rec = F.cross_entropy(logits, s, reduction="sum") / s.shape[0]
    kl = 0.5 * (mu * mu + log_var.exp() - log_var - 1.0).mean(0)
    kl = torch.clamp(kl, min=FREE_BITS).sum()
    return rec + beta * kl, kl


def train_step(model, opt, s, eps, step):
    opt.zero_grad(set_to_none=True)
    loss, kl = elbo(*model_out(model, s, eps), kl_weight(step))
    loss.backward()
    opt.step()
    return loss.detach(), kl.detach()


def model_out(model, s, eps):
    logits, mu, log_var = model(s, eps)
    return logits, s, mu, log_var


def pending(model, opt, extra):
    params = list(model.parameters())
    out = params + [p.grad for p in params]
    for key in ("exp_avg", "exp_inf"):
        out += [opt.state[p][key] for p in params]
    return out + list(extra)


def main():
    torch.manual_seed(6)
    dev = torch_xla.device()
    model = PeptideVAE().to(dev)
    opt = torch.optim.Adamax(model.parameters(), lr=4e-3, foreach=False)
    dumps = {2: sys.argv[1], 3: sys.argv[2]}
    for step in range(6):
        g = torch.Generator().manual_seed(step)
        s = torch.randint(0, ALPHABET, (4, LENGTH), generator=g).to(dev)
        eps = torch.randn(4, 5, generator=g).to(dev)
        torch_xla.sync()
        out = train_step(model, opt, s, eps, step)
        if step in dumps:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(model, opt, out))
            with open(dumps[step], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, [round(x.item(), 6) for x in out])


if __name__ == "__main__":
    main()
