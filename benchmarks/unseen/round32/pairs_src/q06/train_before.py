"""FT-Transformer on loan applications: numeric and categorical columns become tokens."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CARD = (4, 7, 3)
N_NUM = 5
CLASS_WEIGHT = (0.5, 1.0, 2.0)


class Tokenizer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.num_w = nn.Parameter(torch.randn(N_NUM, dim) * 0.1)
        self.num_b = nn.Parameter(torch.randn(N_NUM, dim) * 0.1)
        self.cats = nn.ModuleList(nn.Embedding(c, dim) for c in CARD)
        self.cls = nn.Parameter(torch.randn(dim) * 0.1)

    def forward(self, num, cat):
        n = torch.einsum("bn,nd->bnd", num, self.num_w) + self.num_b
        c = torch.stack([e(cat[:, i]) for i, e in enumerate(self.cats)], 1)
        return torch.cat([self.cls.expand(len(num), 1, -1), n, c], 1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.norm_a, self.norm_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.fc_in = nn.Linear(dim, 4 * dim)
        self.fc_out = nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm_a(x)).chunk(3, -1)
        q, k, v = (z.reshape(b, t, self.h, d // self.h) for z in (q, k, v))
        w = torch.einsum("bqhd,bkhd->bhqk", q, k) / (d // self.h) ** 0.5
        o = torch.einsum("bhqk,bkhd->bqhd", w.softmax(-1), v)
        x = x + self.proj(o.reshape(b, t, d))
        a, g = self.fc_in(self.norm_f(x)).chunk(2, -1)
        return x + self.fc_out(a * F.gelu(g))


class FTTransformer(nn.Module):
    def __init__(self, dim=16, heads=2, depth=1, classes=3):
        super().__init__()
        self.tok = Tokenizer(dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, num, cat):
        x = self.tok(num, cat)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.relu(self.norm(x)[:, 0]))


def applications(n, batch, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        num = rng.standard_normal((batch, N_NUM))
        cat = np.stack([rng.integers(0, c, batch) for c in CARD], 1)
        y = np.digitize(num[:, 0] + 0.4 * cat[:, 2] - 0.4, [-0.5, 0.8])
        yield torch.tensor(num, dtype=torch.float32), torch.tensor(cat), torch.tensor(y)


def train(model, device, steps=5):
    weight = torch.tensor(CLASS_WEIGHT, device=device)
    opt = torch.optim.SGD(model.parameters(), lr=2e-2, momentum=0.9)
    xm.mark_step()
    history = []
    for num, cat, y in applications(steps, 8, seed=21):
        num, cat, y = num.to(device), cat.to(device), y.to(device)
        loss = F.cross_entropy(model(num, cat), y, weight=weight, label_smoothing=0.0)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        xm.mark_step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    print(train(FTTransformer().to(device), device))
