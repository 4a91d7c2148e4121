import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LOSSES = {"l2": F.mse_loss, "huber": F.smooth_l1_loss}
PHASES = [(0, "l2"), (2, "huber")]


class EMA:
    def __init__(self, model, decay, start):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.start = decay, start

    @torch.no_grad()
    def update(self, model, step):
        if step < self.start:
            return
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


class ResBlock(nn.Module):
    def __init__(self, c, emb, dropout):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.emb = nn.Linear(emb, c)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.emb(F.silu(t))[:, :, None, None]
        return x + self.c2(self.dropout(F.silu(self.n2(h))))


class Denoiser(nn.Module):
    def __init__(self, c=12, emb=24, depth=2, dropout=0.1):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(c, emb, dropout) for _ in range(depth)])
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        half = self.emb_dim // 2
        freq = torch.exp(-math.log(1e4) * torch.arange(half, device=x.device) / half)
        ang = t[:, None].float() * freq[None]
        e = self.time(torch.cat([ang.sin(), ang.cos()], 1))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, e)
        return self.out(h)


class Diffusion:
    def __init__(self, T, device):
        beta = torch.linspace(1e-4, 0.02, T)
        abar = torch.cumprod(1 - beta, 0)
        self.T, self.a, self.s = T, abar.sqrt().to(device), (1 - abar).sqrt().to(device)

    def loss(self, model, x0, t, noise, kind):
        a, s = self.a[t][:, None, None, None], self.s[t][:, None, None, None]
        return LOSSES[kind](model(a * x0 + s * noise, t), noise)


def loss_kind(epoch, phases):
    return [kind for first, kind in phases if epoch >= first][-1]


def main(epochs=3, iters=6, batch=8):
    torch.manual_seed(13)
    device = torch_xla.device()
    model = Denoiser().to(device)
    ema = EMA(model, decay=0.95, start=9)
    diff = Diffusion(100, device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    step = 0
    for epoch in range(epochs):
        kind = loss_kind(epoch, PHASES)
        for _ in range(iters):
            x0 = torch.randn(batch, 1, 1, 1).expand(-1, 1, 8, 8).tanh().contiguous().to(device)
            t = torch.randint(0, diff.T, (batch,)).to(device)
            noise = torch.randn(batch, 1, 8, 8).to(device)
            loss = diff.loss(model, x0, t, noise, kind)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model, step)
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch} {kind} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
