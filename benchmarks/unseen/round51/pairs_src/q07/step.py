"""Raman spectra: variational autoencoder with free bits and a linear KL warm-up."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEV = torch_xla.device()


class SpectraVAE(nn.Module):
    def __init__(self, n_bins=24, hid=10, lat=3):
        super().__init__()
        self.enc1 = nn.Linear(n_bins, hid)
        self.enc_norm = nn.LayerNorm(hid)
        self.enc_mu = nn.Linear(hid, lat)
        self.enc_lv = nn.Linear(hid, lat)
        self.dec1 = nn.Linear(lat, hid)
        self.dec2 = nn.Linear(hid, n_bins)
        self.log_noise = nn.Parameter(torch.zeros(n_bins))

    def encode(self, x):
        h = F.elu(self.enc_norm(self.enc1(x)))
        return self.enc_mu(h), self.enc_lv(h).clamp(-6.0, 4.0)

    def decode(self, z):
        return F.softplus(self.dec2(torch.tanh(self.dec1(z))))

    def forward(self, x, noise):
        mu, lv = self.encode(x)
        z = mu + noise * torch.exp(0.5 * lv)
        return self.decode(z), mu, lv


def elbo_terms(model, x, noise, free_bits=0.05):
    rec, mu, lv = model(x, noise)
    prec = torch.exp(-2.0 * model.log_noise)
    nll = 0.5 * (prec * (x - rec) ** 2).sum(-1) + model.log_noise.sum()
    kl = -0.5 * (1.0 + lv - mu * mu - torch.exp(lv))
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return nll.mean(), kl


def snv(x):
    """standard normal variate, per spectrum"""
    mean = x.mean(-1, keepdim=True)
    std = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-6)
    return (x - mean) / std


def beta_at(step, warmup):
    return min(1.0, (step + 1) / warmup)


def main(out_dir, warmup=6):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(41)
    model = SpectraVAE().to(DEV)
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3)
    dump = {4: "a.hlo", 5: "b.hlo"}
    for step in range(8):
        x = torch.rand(6, 24, generator=gen).to(DEV)
        noise = torch.randn(6, 3, generator=gen).to(DEV)
        torch_xla.sync()
        nll, kl = elbo_terms(model, snv(x), noise)
        loss = nll + beta_at(step, warmup) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in dump:
            live = [loss.detach(), nll.detach(), kl.detach()]
            for p in model.parameters():
                live += [p, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out_dir + "/" + dump[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), nll.item(), kl.item())


if __name__ == "__main__":
    main(sys.argv[1])
