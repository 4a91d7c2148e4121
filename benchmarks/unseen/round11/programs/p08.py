"""Aligning two single-cell modalities: two encoders trained with an entropic OT divergence."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Encoder(nn.Module):
    def __init__(self, n_in, n_latent=8, hidden=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, hidden), nn.LayerNorm(hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.ReLU(),
            nn.Linear(hidden, n_latent))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Decoder(nn.Module):
    def __init__(self, n_out, n_latent=8, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_latent, hidden), nn.ReLU(), nn.Linear(hidden, n_out))

    def forward(self, z):
        return self.net(z)


class SinkhornDistance(nn.Module):
    """Entropic optimal transport between two uniform point sets, in the log domain."""

    def __init__(self, eps=0.02, max_iter=12, thresh=5e-4):
        super().__init__()
        self.eps, self.max_iter, self.thresh = eps, max_iter, thresh

    def forward(self, x, y):
        C = (x[:, None] - y[None]).pow(2).sum(-1)
        log_mu = -math.log(x.size(0))
        log_nu = -math.log(y.size(0))
        u = torch.zeros(x.size(0), device=x.device)
        v = torch.zeros(y.size(0), device=y.device)
        for _ in range(self.max_iter):
            u_prev = u
            u = self.eps * (log_mu - torch.logsumexp((v[None] - C) / self.eps, dim=1))
            v = self.eps * (log_nu - torch.logsumexp((u[:, None] - C) / self.eps, dim=0))
            err = (u - u_prev).abs().mean()
            if err.item() < self.thresh:
                break
        pi = torch.exp((u[:, None] + v[None] - C) / self.eps)
        return (pi * C).sum()


class PairedCells:
    def __init__(self, n=400, genes=30, peaks=40, seed=0):
        g = torch.Generator().manual_seed(seed)
        kind = torch.randint(0, 4, (n,), generator=g)
        latent = torch.randn(4, 6, generator=g)[kind] + 0.2 * torch.randn(n, 6, generator=g)
        self.rna = torch.relu(latent @ torch.randn(6, genes, generator=g))
        self.atac = torch.sigmoid(latent @ torch.randn(6, peaks, generator=g))

    def sample(self, n):
        i = torch.randint(0, len(self.rna), (n,))
        j = torch.randint(0, len(self.atac), (n,))
        return self.rna[i], self.atac[j]


class AlignmentModel(nn.Module):
    def __init__(self, genes, peaks):
        super().__init__()
        self.enc_rna, self.enc_atac = Encoder(genes), Encoder(peaks)
        self.dec_rna, self.dec_atac = Decoder(genes), Decoder(peaks)
        self.ot = SinkhornDistance()

    def losses(self, rna, atac):
        z1, z2 = self.enc_rna(rna), self.enc_atac(atac)
        recon = F.mse_loss(self.dec_rna(z1), rna) + F.mse_loss(self.dec_atac(z2), atac)
        return recon, self.ot(z1, z2)


def fit(model, data, device, steps=20, batch=32, lr=4e-3, ot_weight=0.1):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.RMSprop(params, lr=lr)
    for step in range(steps):
        rna, atac = data.sample(batch)
        recon, ot = model.losses(rna.to(device), atac.to(device))
        loss = recon + ot_weight * ot
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step:02d}  recon {recon.item():.4f}  ot {ot.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    dev = torch_xla.device()
    fit(AlignmentModel(30, 40).to(dev), PairedCells(), dev)
