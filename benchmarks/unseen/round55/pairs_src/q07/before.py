import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CH, SIZE, PATCH, DIM, HEADS, T = 3, 8, 2, 16, 2, 100


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device).float() / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class Attention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, d))


class DiTBlock(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.ada = nn.Linear(dim, 6 * dim)

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(F.silu(c)).chunk(6, dim=1)
        x = x + a1[:, None] * self.attn(modulate(self.norm1(x), s1, g1))
        h = self.fc2(F.gelu(self.fc1(modulate(self.norm2(x), s2, g2)), approximate="tanh"))
        return x + a2[:, None] * h


class DiT(nn.Module):

    def __init__(self, depth=1, classes=5):
        super().__init__()
        tokens = (SIZE // PATCH) ** 2
        self.embed = nn.Conv2d(CH, DIM, PATCH, PATCH)
        self.pos = nn.Parameter(torch.randn(1, tokens, DIM) * 0.02)
        self.t_proj = nn.Linear(DIM, DIM)
        self.y_embed = nn.Embedding(classes + 1, DIM)
        self.blocks = nn.ModuleList(DiTBlock(DIM, HEADS) for _ in range(depth))
        self.out = nn.Linear(DIM, PATCH * PATCH * CH)

    def forward(self, x, t, y):
        dtype = self.pos.dtype
        b = x.size(0)
        h = self.embed(x.to(dtype)).flatten(2).transpose(1, 2) + self.pos
        c = self.t_proj(timestep_embedding(t, DIM).to(dtype)) + self.y_embed(y)
        for block in self.blocks:
            h = block(h, c)
        h = self.out(h).view(b, SIZE // PATCH, SIZE // PATCH, PATCH, PATCH, CH)
        return h.permute(0, 5, 1, 3, 2, 4).reshape(b, CH, SIZE, SIZE)


class Schedule:

    def __init__(self, device):
        betas = torch.linspace(1e-4, 0.02, T)
        acp = torch.cumprod(1 - betas, 0)
        self.a = acp.sqrt().to(device)
        self.s = (1 - acp).sqrt().to(device)

    def q_sample(self, x0, t, eps):
        return self.a[t][:, None, None, None] * x0 + self.s[t][:, None, None, None] * eps


def train(steps=4):
    torch.manual_seed(7)
    device = torch_xla.device()
    model = DiT().to(torch.bfloat16).to(device)
    schedule = Schedule(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    torch_xla.sync()
    for _ in range(steps):
        x0 = torch.randn(4, CH, SIZE, SIZE).to(device)
        eps = torch.randn(4, CH, SIZE, SIZE).to(device)
        t = torch.randint(T, (4,)).to(device)
        y = torch.randint(6, (4,)).to(device)
        pred = model(schedule.q_sample(x0, t, eps), t, y)
        loss = F.mse_loss(pred.float(), eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.detach())
    print([l.item() for l in losses])


if __name__ == "__main__":
    train()
