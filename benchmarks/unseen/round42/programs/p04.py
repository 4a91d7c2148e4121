"""VQ autoencoder for accelerometer windows, codebook learned by moving averages."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 5
STEPS = 48
BATCH = 32
WINDOW = 64
PATCH = 8
NUM_CODES = 96
CODE_DIM = 12


def mlp(din, width, dout):
    return nn.Sequential(nn.Linear(din, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                         nn.Linear(width, dout))


class EMACodebook(nn.Module):
    def __init__(self, num_codes, dim, decay=0.9, eps=1e-5, min_usage=1.0, check_every=4):
        super().__init__()
        self.num_codes, self.decay, self.eps = num_codes, decay, eps
        self.min_usage, self.check_every = min_usage, check_every
        codes = torch.randn(num_codes, dim)
        self.register_buffer("codes", codes)
        self.register_buffer("usage", torch.ones(num_codes))
        self.register_buffer("sums", codes.clone())
        self.calls = 0

    def lookup(self, flat):
        dist = (flat.square().sum(1, keepdim=True) - 2 * flat @ self.codes.t()
                + self.codes.square().sum(1))
        return dist.argmin(dim=1)

    @torch.no_grad()
    def refresh(self, flat, onehot):
        self.usage.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        total = self.usage.sum()
        smoothed = (self.usage + self.eps) / (total + self.num_codes * self.eps) * total
        self.codes.copy_(self.sums / smoothed.unsqueeze(1))

    @torch.no_grad()
    def revive(self, flat):
        stale = torch.nonzero(self.usage < self.min_usage).squeeze(1)
        if stale.numel() == 0:
            return
        picks = torch.randint(flat.size(0), (stale.numel(),)).to(flat.device)
        fresh = flat[picks]
        self.codes[stale] = fresh
        self.sums[stale] = fresh
        self.usage[stale] = 1.0

    def forward(self, z):
        flat = z.flatten(0, 1)
        ids = self.lookup(flat)
        onehot = F.one_hot(ids, self.num_codes).to(flat.dtype)
        quant = onehot @ self.codes
        if self.training:
            self.refresh(flat.detach(), onehot)
            self.calls += 1
            if self.calls % self.check_every == 0:
                self.revive(flat.detach())
        commit = F.mse_loss(flat, quant.detach())
        quant = flat + (quant - flat).detach()
        freq = onehot.mean(0)
        perplexity = torch.exp(-(freq * (freq + 1e-10).log()).sum())
        return quant.view_as(z), commit, perplexity


class VQAE(nn.Module):
    """Every token is a patch of PATCH samples of the three axes."""

    def __init__(self, width=48):
        super().__init__()
        self.encoder = mlp(3 * PATCH, width, CODE_DIM)
        self.codebook = EMACodebook(NUM_CODES, CODE_DIM)
        self.decoder = mlp(CODE_DIM, width, 3 * PATCH)

    def forward(self, x):
        b = x.size(0)
        patches = x.view(b, 3, -1, PATCH).transpose(1, 2).reshape(b, -1, 3 * PATCH)
        quant, commit, perplexity = self.codebook(self.encoder(patches))
        out = self.decoder(quant).view(b, -1, 3, PATCH).transpose(1, 2)
        return out.reshape(x.shape), commit, perplexity


def windows(gen):
    t = torch.arange(WINDOW) / 32.0
    while True:
        freq = 0.5 + 3.0 * torch.rand(BATCH, 3, 1, generator=gen)
        amp = 0.3 + torch.rand(BATCH, 3, 1, generator=gen)
        phase = 2 * math.pi * torch.rand(BATCH, 3, 1, generator=gen)
        x = amp * torch.sin(2 * math.pi * freq * t + phase)
        yield x + 0.05 * torch.randn(BATCH, 3, WINDOW, generator=gen)


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    model = VQAE().to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    stream = windows(torch.Generator().manual_seed(SEED))
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        x = next(stream).to(device)
        recon, commit, perplexity = model(x)
        rec = F.mse_loss(recon, x)
        loss = rec + 0.25 * commit
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 8 == 0:
            print(f"step {step:3d}  rec {rec.item():.4f}  commit {commit.item():.4f}  "
                  f"ppl {perplexity.item():.1f}")


if __name__ == "__main__":
    main()
