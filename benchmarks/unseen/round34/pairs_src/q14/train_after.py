"""Patch transformer for hourly load forecasting (channel independent, reversible instance norm)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPE = dict(context=24, patch=4, horizon=6, dim=16, heads=2, depth=1)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o_proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.unbind(dim=2)
        attn = torch.einsum("bihd,bjhd->bhij", q * self.scale, k).softmax(dim=-1)
        out = torch.einsum("bhij,bjhd->bihd", attn, v)
        return self.o_proj(out.flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Forecaster(nn.Module):
    def __init__(self, context, patch, horizon, dim, heads, depth):
        super().__init__()
        self.patch = patch
        n = context // patch
        self.embed = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, n, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(n * dim, horizon)

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        std = (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        x = centred / std
        h = self.embed(x.view(x.shape[0], -1, self.patch)) + self.pos
        for blk in self.blocks:
            h = blk(h)
        y = self.head(h.flatten(1))
        return torch.addcmul(mean, y, std)


def loss_fn(pred, target):
    err = target - pred
    return (err * err).mean()


def load_series(steps, batch=6, context=24, horizon=6):
    g = torch.Generator().manual_seed(5)
    t = torch.arange(context + horizon) / 24.0
    for _ in range(steps):
        amp = 1 + torch.rand(batch, 1, generator=g)
        ph = torch.rand(batch, 1, generator=g)
        s = 3 + amp * torch.sin(6.2832 * (t + ph)) + 0.1 * torch.randn(batch, context + horizon, generator=g)
        yield s[:, :context], s[:, context:]


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=2e-3)


def train_step(model, opt, x, y):
    opt.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.detach()


def main():
    import torch_xla
    import torch_xla.core.xla_model as xm

    torch.manual_seed(0)
    device = xm.xla_device()
    model = Forecaster(**SHAPE).to(device)
    opt = make_optimizer(model)
    torch_xla.sync()
    losses = []
    for x, y in load_series(4):
        losses.append(train_step(model, opt, x.to(device), y.to(device)))
        torch_xla.sync()
    print([round(l.item(), 5) for l in losses])


if __name__ == "__main__":
    main()
