"""VQ-VAE over single heart beats (two-lead ECG): discrete beat codes for arrhythmia retrieval."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEADS, SAMPLES, WIDTH, CODES, CODE_DIM = 2, 32, 8, 10, 6
BETA = 0.25


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv = nn.Conv1d(ch, ch, 3, padding=1)
        self.norm = nn.GroupNorm(2, ch)

    def forward(self, x):
        return x + F.silu(self.norm(self.conv(x)))


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(CODES, CODE_DIM).uniform_(-0.5, 0.5))

    def forward(self, z):
        flat = z.transpose(1, 2).reshape(-1, CODE_DIM)
        dist = (flat.pow(2).sum(1, keepdim=True)
                - 2.0 * flat @ self.weight.t()
                + self.weight.pow(2).sum(1))
        idx = dist.argmin(dim=1)
        quant = F.embedding(idx, self.weight)
        quant = quant.view(z.shape[0], z.shape[2], CODE_DIM).transpose(1, 2)

        codebook_loss = F.mse_loss(quant, z.detach())
        commit_loss = F.mse_loss(z, quant)
        loss = codebook_loss + BETA * commit_loss

        quant = z + (quant - z).detach()  # straight through
        usage = F.one_hot(idx, CODES).float().mean(dim=0)
        perplexity = torch.exp(-(usage * torch.log(usage + 1e-10)).sum())
        return quant, loss, perplexity


class BeatVQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc_in = nn.Conv1d(LEADS, WIDTH, 4, stride=2, padding=1)
        self.enc_res = Residual(WIDTH)
        self.enc_out = nn.Conv1d(WIDTH, CODE_DIM, 4, stride=2, padding=1)
        self.codebook = Codebook()
        self.dec_in = nn.ConvTranspose1d(CODE_DIM, WIDTH, 4, stride=2, padding=1)
        self.dec_res = Residual(WIDTH)
        self.dec_out = nn.ConvTranspose1d(WIDTH, LEADS, 4, stride=2, padding=1)

    def forward(self, x):
        z = self.enc_out(self.enc_res(F.silu(self.enc_in(x))))
        quant, vq_loss, perplexity = self.codebook(z)
        return self.dec_out(self.dec_res(F.silu(self.dec_in(quant)))), vq_loss, perplexity


def step_loss(model, beat, weight):
    recon, vq_loss, perplexity = model(beat)
    # slopes matter more than the level: the first difference is compared as well
    err = (recon - beat).abs()
    slope = (recon.diff(dim=-1) - beat.diff(dim=-1)).abs()
    recon_loss = (weight[:, None, None] * err).mean() + 0.5 * slope.mean()
    return recon_loss + vq_loss, recon_loss, perplexity


def train(steps=4, dump=None, dump_at=3):
    torch.manual_seed(14)
    device = torch_xla.device()
    model = BeatVQVAE()
    data = [(torch.randn(4, LEADS, SAMPLES), torch.rand(4) + 0.5) for _ in range(steps)]
    model.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.95))
    losses = []
    for step, (beat, weight) in enumerate(data, start=1):
        beat, weight = beat.to(device), weight.to(device)
        loss, recon_loss, perplexity = step_loss(model, beat, weight)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        logs = [loss.detach(), recon_loss.detach(), perplexity]
        if dump and step == dump_at:
            live = list(logs)
            for p in model.parameters():
                live += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        losses.append([round(x.item(), 5) for x in logs])
    return losses


if __name__ == "__main__":
    print(train(dump=sys.argv[1] if len(sys.argv) > 1 else None))
