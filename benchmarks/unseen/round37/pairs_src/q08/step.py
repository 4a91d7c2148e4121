"""Count VAE for plankton-survey species tables (Poisson likelihood, KL warm-up)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TAXA, HID, LATENT, BATCH = 18, 16, 4, 12
WARMUP = 5


class SurveyVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Linear(TAXA, HID), nn.BatchNorm1d(HID), nn.GELU(),
            nn.Linear(HID, HID), nn.GELU(),
        )
        self.mu = nn.Linear(HID, LATENT)
        self.logvar = nn.Linear(HID, LATENT)
        self.dec = nn.Sequential(
            nn.Linear(LATENT, HID), nn.BatchNorm1d(HID), nn.GELU(),
            nn.Linear(HID, TAXA),
        )

    def forward(self, counts, noise):
        depth = counts.sum(-1, keepdim=True)
        h = self.enc(torch.log1p(counts))
        mu, logvar = self.mu(h), self.logvar(h).clamp(-6.0, 4.0)
        z = mu + noise * torch.exp(0.5 * logvar)
        log_rate = F.log_softmax(self.dec(z), dim=-1) + torch.log(depth + 1e-3)
        return log_rate, mu, logvar


def elbo_terms(counts, log_rate, mu, logvar):
    rec = (torch.exp(log_rate) - counts * log_rate).sum(-1).mean()
    kl = 0.5 * (mu * mu + logvar.exp() - 1.0 - logvar).sum(-1).mean()
    return rec, kl


def kl_weight(step):
    return min(1.0, (step + 1) / WARMUP)


def live(model, opt):
    out = list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st["exp_avg"], st["exp_avg_sq"]]
    return out + list(model.buffers())


def main():
    dump = dict(zip((3, 4), sys.argv[1:3]))
    torch.manual_seed(12)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(13)
    model = SurveyVAE().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    torch_xla.sync()
    for step in range(8):
        counts = torch.poisson(torch.rand(BATCH, TAXA, generator=gen) * 6.0, generator=gen).to(dev)
        noise = torch.randn(BATCH, LATENT, generator=gen).to(dev)
        rec, kl = elbo_terms(counts, *model(counts, noise))
        loss = rec + kl_weight(step) * kl
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step in dump:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt) + [rec, kl, loss])
            with open(dump[step], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(step, rec.item(), kl.item(), loss.item())


if __name__ == "__main__":
    main()
