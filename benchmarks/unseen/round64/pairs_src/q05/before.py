"""Multivariate load forecasting with a patch transformer, torch_xla."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONTEXT, HORIZON, PATCH, CHANNELS = 48, 12, 8, 3
DIM, HEADS = 16, 2
BATCH, STEPS = 6, 5


class InstanceNorm(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def normalize(self, x):
        self.mean = x.mean(dim=-1, keepdim=True).detach()
        self.std = torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mean) / self.std

    def denormalize(self, x):
        return x * self.std + self.mean


class PatchAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM)
        self.o = nn.Linear(DIM, DIM)

    def forward(self, x, pad):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, HEADS, -1)
        k = self.k(x).view(b, n, HEADS, -1)
        v = self.v(x).view(b, n, HEADS, -1)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / (DIM // HEADS) ** 0.5
        scores = scores.masked_fill(pad[:, None, None, :], float("-inf"))
        out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), v)
        return self.o(out.reshape(b, n, DIM))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = PatchAttention()
        self.norm1 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.norm2 = nn.LayerNorm(DIM)

    def forward(self, x, pad):
        x = self.norm1(x + self.attn(x, pad))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class PatchForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = InstanceNorm()
        self.embed = nn.Linear(PATCH, DIM)
        self.pos = nn.Parameter(torch.randn(CONTEXT // PATCH, DIM) * 0.02)
        self.layer = EncoderLayer()
        self.head = nn.Linear(DIM * (CONTEXT // PATCH), HORIZON)

    def forward(self, x, observed):
        b, c, _ = x.shape
        x = self.norm.normalize(x)
        patches = x.reshape(b * c, CONTEXT // PATCH, PATCH)
        pad = ~observed.reshape(b, CONTEXT // PATCH, PATCH).any(dim=-1)
        pad = pad.repeat_interleave(c, dim=0)
        h = self.layer(self.embed(patches) + self.pos, pad)
        y = self.head(h.flatten(1)).view(b, c, HORIZON)
        return self.norm.denormalize(y)


def forecast_loss(pred, target, weight):
    err = (pred - target) ** 2
    return (err * weight).sum() / weight.sum()


def train_step(model, optimizer, batch):
    context, observed, target, weight = batch
    optimizer.zero_grad()
    loss = forecast_loss(model(context, observed), target, weight)
    loss.backward()
    optimizer.step()
    return loss.detach()


def batches(seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        series = torch.randn(BATCH, CHANNELS, CONTEXT + HORIZON, generator=g).cumsum(dim=-1)
        observed = torch.ones(BATCH, CONTEXT, dtype=torch.bool)
        observed[:2, :PATCH * 2] = False
        weight = (torch.rand(BATCH, CHANNELS, HORIZON, generator=g) > 0.1).float()
        yield series[..., :CONTEXT].contiguous(), observed, series[..., CONTEXT:].contiguous(), weight


def main(weights=None):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = PatchForecaster()
    if weights is not None:
        model.load_state_dict(weights)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    torch_xla.sync()
    losses = []
    for step, batch in enumerate(batches()):
        batch = [t.to(device) for t in batch]
        loss = train_step(model, optimizer, batch)
        torch_xla.sync()
        losses.append(loss.item())
        print(f"step {step} loss {losses[-1]:.6f}", flush=True)
    return model, losses


if __name__ == "__main__":
    main()
