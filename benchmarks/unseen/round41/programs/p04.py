"""VQ-VAE over mel-like frames with an EMA codebook and revival of unused codes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS = 20
FRAMES = 16
BATCH = 8
CODES = 64
CODE_DIM = 12
STEPS = 60
REVIVE_EVERY = 4


def mel_batch(gen):
    """Sums of a few drifting formants, log-compressed."""
    t = torch.linspace(0, 1, FRAMES).view(1, 1, FRAMES)
    f = torch.arange(MELS).view(1, MELS, 1).float()
    x = torch.zeros(BATCH, MELS, FRAMES)
    for _ in range(3):
        start = torch.rand(BATCH, 1, 1, generator=gen) * MELS
        slope = (torch.rand(BATCH, 1, 1, generator=gen) - 0.5) * 10
        width = 0.8 + torch.rand(BATCH, 1, 1, generator=gen)
        x = x + torch.exp(-((f - start - slope * t) / width) ** 2)
    return torch.log1p(4 * x) + 0.02 * torch.randn(x.shape, generator=gen)


class Codebook(nn.Module):
    def __init__(self, codes, dim, decay=0.9, min_usage=0.6, eps=1e-5):
        super().__init__()
        self.decay, self.min_usage, self.eps = decay, min_usage, eps
        embed = torch.randn(codes, dim)
        self.register_buffer("embed", embed)
        self.register_buffer("embed_sum", embed.clone())
        self.register_buffer("usage", torch.ones(codes))

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        dist = (flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed.t()
                + self.embed.pow(2).sum(1))
        idx = dist.argmin(1)
        onehot = F.one_hot(idx, self.embed.shape[0]).type_as(flat)
        quant = (onehot @ self.embed).view_as(z)
        if self.training:
            self._ema_update(flat.detach(), onehot)
        commit = F.mse_loss(z, quant.detach())
        return z + (quant - z).detach(), commit, onehot.mean(0)

    @torch.no_grad()
    def _ema_update(self, flat, onehot):
        self.usage.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.embed_sum.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        total = self.usage.sum()
        smoothed = (self.usage + self.eps) / (total + self.usage.numel() * self.eps) * total
        self.embed.copy_(self.embed_sum / smoothed.unsqueeze(1))

    @torch.no_grad()
    def revive(self, z):
        flat = z.reshape(-1, z.shape[-1])
        unused = torch.nonzero(self.usage < self.min_usage).squeeze(1)
        n = unused.numel()
        if n == 0:
            return 0
        picks = torch.randperm(flat.shape[0], device=flat.device)[:n]
        fresh = flat[picks] + 0.01 * torch.randn(n, flat.shape[1], device=flat.device)
        self.embed[unused] = fresh
        self.embed_sum[unused] = fresh
        self.usage[unused] = 1.0
        return n


class VQVAE(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(MELS, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, CODE_DIM, 1),
        )
        self.codebook = Codebook(CODES, CODE_DIM)
        self.dec = nn.Sequential(
            nn.Conv1d(CODE_DIM, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, MELS, 3, padding=1),
        )

    def encode(self, x):
        return self.enc(x).transpose(1, 2)

    def forward(self, x):
        z = self.encode(x)
        q, commit, probs = self.codebook(z)
        return self.dec(q.transpose(1, 2)), commit, probs


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    device = torch_xla.device()
    xm.set_rng_state(21, device)

    model = VQVAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    revived = 0
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        x = mel_batch(gen).to(device)
        recon, commit, probs = model(x)
        rec_loss = F.mse_loss(recon, x)
        loss = rec_loss + 0.25 * commit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        perplexity = torch.exp(-(probs * torch.log(probs + 1e-9)).sum())
        torch_xla.sync()

        if step % REVIVE_EVERY == 0:
            with torch.no_grad():
                z = model.encode(x)
            revived += model.codebook.revive(z)
            torch_xla.sync()

        if step % 10 == 0:
            print(f"step {step:3d}  rec {rec_loss.item():.4f}  "
                  f"ppl {perplexity.item():.1f}  revived {revived}")


if __name__ == "__main__":
    main()
