"""Mult-VAE for implicit feedback, KL weight annealed per step up to full ELBO."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ITEMS = 40
ANNEAL_STEPS = 5
ANNEAL_CAP = 1.0


class MultVAE(nn.Module):
    def __init__(self, n_items=N_ITEMS, hidden=16, latent=6):
        super().__init__()
        self.enc1 = nn.Linear(n_items, hidden)
        self.enc2 = nn.Linear(hidden, 2 * latent)
        self.dec1 = nn.Linear(latent, hidden)
        self.dec2 = nn.Linear(hidden, n_items)
        self.latent = latent

    def encode(self, x):
        h = F.normalize(x)
        h = F.dropout(h, 0.5, self.training)
        h = torch.tanh(self.enc1(h))
        h = self.enc2(h)
        return h[:, :self.latent], h[:, self.latent:]

    def forward(self, x, eps):
        mu, logvar = self.encode(x)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.dec2(torch.tanh(self.dec1(z))), mu, logvar


def elbo_terms(logits, x, mu, logvar):
    nll = -(F.log_softmax(logits, 1) * x).sum(-1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return nll, kl


def kl_weight(step):
    return min(ANNEAL_CAP, 1.0 * step / ANNEAL_STEPS)


def train_step(model, opt, x, eps, step):
    opt.zero_grad(set_to_none=True)
    logits, mu, logvar = model(x, eps)
    nll, kl = elbo_terms(logits, x, mu, logvar)
    loss = nll + kl_weight(step) * kl
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0, foreach=False)
    opt.step()
    return loss, nll, kl


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts += [p, p.grad]
        ts += [v for _, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
    return ts


def main(dumps):
    torch.manual_seed(1)
    device = torch_xla.device()
    model = MultVAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    for step in range(1, 8):
        x = (torch.rand(8, N_ITEMS) < 0.15).float().to(device)
        eps = torch.randn(8, 6).to(device)
        losses = train_step(model, opt, x, eps, step)
        if step in dumps:
            with open(dumps[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, losses)))
        torch_xla.sync()
        print(step, [round(v.item(), 5) for v in losses])


if __name__ == "__main__":
    main({4: sys.argv[1], 5: sys.argv[2]})
