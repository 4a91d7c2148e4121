"""Variational autoencoder over ten-minute SCADA records of wind turbines (power, rotor speed,
pitch, bearing temperatures ...), used for early fault detection.  KL annealing as in
Bowman et al.: the weight of the KL term rises linearly over the first steps, then stays."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HERE = os.path.dirname(os.path.abspath(__file__))
N_SIGNALS, N_TURBINES, HIDDEN, LATENT = 14, 6, 24, 5
KL_WARMUP = 4          # steps until the KL term has its full weight
FREE_BITS = 0.02


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.site = nn.Embedding(N_TURBINES, 4)
        self.l1 = nn.Linear(N_SIGNALS + 4, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.mu = nn.Linear(HIDDEN, LATENT)
        self.logvar = nn.Linear(HIDDEN, LATENT)

    def forward(self, x, turbine):
        h = torch.cat([x, self.site(turbine)], dim=-1)
        h = F.silu(self.norm(self.l1(h)))
        return self.mu(h), self.logvar(h).clamp(-6.0, 4.0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(LATENT, HIDDEN)
        self.l2 = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, N_SIGNALS)
        self.log_scale = nn.Parameter(torch.zeros(N_SIGNALS))

    def forward(self, z):
        h = F.silu(self.l1(z))
        h = h + F.silu(self.l2(h))
        return self.out(h), self.log_scale


def kl_weight(step):
    return min(1.0, (step + 1) / KL_WARMUP)


def elbo(enc, dec, x, turbine, valid, step):
    mu, logvar = enc(x, turbine)
    z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
    rec, log_scale = dec(z)
    # Student-t-like robust likelihood; sensors that dropped out do not count
    resid = (x - rec) * torch.exp(-log_scale)
    nll = torch.log1p(resid.square()) + log_scale
    nll = (nll * valid).sum(-1) / valid.sum(-1).clamp(min=1.0)
    kl = 0.5 * (mu.square() + logvar.exp() - 1.0 - logvar)
    kl = torch.clamp(kl.mean(0), min=FREE_BITS).sum()
    return nll.mean() + kl_weight(step) * kl, nll.mean().detach(), kl.detach()


def pending(mods, opt, extra):
    out = list(extra)
    for m in mods:
        for p in m.parameters():
            out += [p.data] + ([p.grad] if p.grad is not None else [])
        out += list(m.buffers())
    for g in opt.param_groups:
        for p in g["params"]:
            for k in sorted(opt.state[p]):
                v = opt.state[p][k]
                if torch.is_tensor(v) and v.device.type == "xla":
                    out.append(v)
    return out


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    enc, dec = Encoder().to(dev), Decoder().to(dev)
    opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=2e-3)
    gen = torch.Generator().manual_seed(11)
    xm.mark_step()
    for step in range(5):
        x = torch.randn(16, N_SIGNALS, generator=gen).to(dev)
        turbine = torch.randint(0, N_TURBINES, (16,), generator=gen).to(dev)
        valid = (torch.rand(16, N_SIGNALS, generator=gen) > 0.1).float().to(dev)
        opt.zero_grad()
        loss, nll, kl = elbo(enc, dec, x, turbine, valid, step)
        loss.backward()
        opt.step()
        name = {2: "a.hlo", 3: "b.hlo"}.get(step)
        if name:
            text = torch_xla._XLAC._get_xla_tensors_hlo(pending([enc, dec], opt, [loss, nll, kl]))
            with open(os.path.join(HERE, name), "w") as f:
                f.write(text)
        xm.mark_step()
        print(step, loss.item(), nll.item(), kl.item())


if __name__ == "__main__":
    main()
