"""beta-VAE on Raman spectra, KL warm-up over the first steps.

usage: python step.py OUTDIR      (writes OUTDIR/a.hlo and OUTDIR/b.hlo)
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, BINS, LATENT = 6, 64, 5
WARMUP = 4
DUMP = {3: "a.hlo", 4: "b.hlo"}


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch)
        self.conv = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation, bias=False)

    def forward(self, x):
        h = F.silu(self.norm(x))
        return x + self.conv(h)


class SpectrumVAE(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.stem = nn.Conv1d(1, ch, 5, stride=2, padding=2)
        self.enc = nn.ModuleList([ResBlock(ch, 2)])
        self.squeeze = nn.Conv1d(ch, ch, 4, stride=4, bias=False)
        self.to_stats = nn.Linear(ch * BINS // 8, 2 * LATENT)
        self.from_z = nn.Linear(LATENT, ch * BINS // 8)
        self.expand = nn.ConvTranspose1d(ch, ch, 4, stride=4)
        self.dec = nn.ModuleList([ResBlock(ch, 1)])
        self.head = nn.ConvTranspose1d(ch, 2, 4, stride=2, padding=1)
        self.ch = ch

    def encode(self, x):
        h = self.stem(x.unsqueeze(1))
        for block in self.enc:
            h = block(h)
        h = self.squeeze(F.silu(h)).flatten(1)
        mu, logvar = self.to_stats(h).chunk(2, dim=-1)
        return mu, logvar.clamp(-8.0, 4.0)

    def decode(self, z):
        h = self.from_z(z).view(-1, self.ch, BINS // 8)
        h = self.expand(F.silu(h))
        for block in self.dec:
            h = block(h)
        out = self.head(F.silu(h))
        return F.softplus(out[:, 0]), out[:, 1]

    def forward(self, x, eps):
        mu, logvar = self.encode(x)
        z = mu + eps * torch.exp(0.5 * logvar)
        rate, log_scale = self.decode(z)
        return rate, log_scale, mu, logvar


def kl_weight(step):
    return min(1.0, step / WARMUP)


def elbo(model, x, eps, step):
    rate, log_scale, mu, logvar = model(x, eps)
    resid = (x - rate) * torch.exp(-log_scale)
    # Cauchy noise: cosmic-ray spikes must not dominate
    recon = (torch.log1p(resid.pow(2)) + log_scale).sum(-1).mean()
    kl_dim = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar)
    kl = kl_dim.mean(0).clamp(min=0.02).sum()
    beta = kl_weight(step)
    return recon + beta * kl, recon.detach(), kl.detach()


def live(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
        state = opt.state[p]
        out += [state["exp_avg"], state["exp_avg_sq"]]
    return out


def main(outdir):
    device = torch_xla.device()
    torch.manual_seed(5)
    model = SpectrumVAE().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.03)
    gen = torch.Generator().manual_seed(17)
    torch_xla.sync()
    for step in range(6):
        x = torch.rand(BATCH, BINS, generator=gen).to(device)
        eps = torch.randn(BATCH, LATENT, generator=gen).to(device)
        opt.zero_grad(set_to_none=True)
        loss, recon, kl = elbo(model, x, eps, step)
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step in DUMP:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                live(model, opt, [loss, recon, kl, gnorm]))
            with open(os.path.join(outdir, DUMP[step]), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item(), kl.item(), gnorm.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
