"""FT-Transformer for credit scoring (tabular, numeric + categorical)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Tokenizer(nn.Module):
    def __init__(self, n_num, cardinalities, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_num + 1, dim).uniform_(-1, 1) / math.sqrt(dim))
        self.bias = nn.Parameter(torch.zeros(n_num + len(cardinalities), dim))
        offsets = torch.tensor([0] + list(cardinalities[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.cat = nn.Embedding(sum(cardinalities), dim)

    def forward(self, num, cat):
        one = torch.ones_like(num[:, :1])
        x = torch.cat([one, num], 1)[..., None] * self.weight
        x = torch.cat([x, self.cat(cat + self.offsets)], 1)
        return x + F.pad(self.bias, (0, 0, 1, 0))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, 2 * hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        a, b = self.up(x).chunk(2, dim=-1)
        return self.down(a * F.gelu(b))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads), -1)
        return self.proj((w @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, first=False):
        super().__init__()
        self.norm1 = nn.Identity() if first else nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = FeedForward(dim, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class FTTransformer(nn.Module):
    def __init__(self, n_num, cardinalities, dim=16, heads=2, hidden=20, depth=1):
        super().__init__()
        self.tokens = Tokenizer(n_num, cardinalities, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, hidden, first=i == 0) for i in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, num, cat):
        x = self.tokens(num, cat)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.relu(self.norm(x[:, 0]))).squeeze(-1)


def param_groups(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        plain = p.ndim < 2 or name.startswith("tokens") or "norm" in name
        (rest if plain else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def applicants(n, batch_size, n_num, cardinalities, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        num = torch.randn(batch_size, n_num, generator=g)
        cat = torch.stack([torch.randint(0, c, (batch_size,), generator=g) for c in cardinalities], 1)
        yield num, cat, (num[:, 0] + 0.5 * num[:, 1] > 0.4).float()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    cards = (5, 3, 9)
    model = FTTransformer(6, cards).to(device)
    opt = torch.optim.AdamW(param_groups(model, 1e-2), lr=1e-3)
    pos_weight = torch.tensor(2.0, device=device)
    torch_xla.sync()
    for num, cat, y in applicants(4, 8, 6, cards):
        num, cat, y = num.to(device), cat.to(device), y.to(device)
        loss = F.binary_cross_entropy_with_logits(model(num, cat), y, pos_weight=pos_weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    main()
