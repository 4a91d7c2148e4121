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


class ColumnEmbedding(nn.Module):
    """All categorical columns share one table; column i starts at row offset[i]."""

    def __init__(self, dim):
        super().__init__()
        self.table = nn.Embedding(sum(CARD), dim)
        self.scale = nn.Parameter(torch.randn(N_NUM, dim) * 0.1)
        self.shift = nn.Parameter(torch.randn(N_NUM, dim) * 0.1)
        self.cls = nn.Parameter(torch.randn(dim) * 0.1)
        self.register_buffer("offset", torch.tensor([0, *np.cumsum(CARD)[:-1]]))

    def forward(self, num, cat):
        c = self.table(cat + self.offset)
        n = torch.addcmul(self.shift, num.unsqueeze(-1), self.scale)
        return torch.cat([self.cls.repeat(num.shape[0], 1, 1), n, c], dim=1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.key = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def split(self, z):
        return z.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def forward(self, x):
        k, q, v = self.split(self.key(x)), self.split(self.query(x)), self.split(self.value(x))
        w = torch.softmax(torch.matmul(q * self.width ** -0.5, k.mT), dim=-1)
        return self.proj(torch.matmul(w, v).transpose(1, 2).flatten(2))


class GEGLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, 2 * dim)
        self.value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.out(F.gelu(self.gate(x)) * self.value(x))


class FTTransformer(nn.Module):
    def __init__(self, dim=16, heads=2, depth=1, classes=3):
        super().__init__()
        self.embed = ColumnEmbedding(dim)
        self.attn = nn.ModuleList(Attention(dim, heads) for _ in range(depth))
        self.ffn = nn.ModuleList(GEGLU(dim) for _ in range(depth))
        self.attn_norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ffn_norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, num, cat):
        x = self.embed(num, cat)
        for an, attn, fn, ffn in zip(self.attn_norm, self.attn, self.ffn_norm, self.ffn):
            x = attn(an(x)) + x
            x = ffn(fn(x)) + x
        return self.head(self.norm(x[:, 0]).relu())


def weighted_nll(logits, y, weight):
    logp = logits - logits.logsumexp(-1, keepdim=True)
    w = weight[y]
    return -(w * logp.gather(1, y[:, None]).squeeze(1)).sum() / w.sum()


def applications(n, batch, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        num = rng.standard_normal((batch, N_NUM))
        cat = np.stack([rng.integers(0, c, batch) for c in CARD], 1)
        y = np.digitize(num[:, 0] + 0.4 * cat[:, 2] - 0.4, [-0.5, 0.8])
        yield torch.tensor(num, dtype=torch.float32), torch.tensor(cat), torch.tensor(y)


def train(model, device, steps=5):
    weight = torch.tensor(CLASS_WEIGHT, device=device)
    params = list(model.parameters())
    opt = torch.optim.SGD(params, lr=2e-2, momentum=0.9)
    xm.mark_step()
    history = []
    for batch in applications(steps, 8, seed=21):
        num, cat, y = (x.to(device) for x in batch)
        opt.zero_grad()
        loss = weighted_nll(model(num, cat), y, weight)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 0.5)
        opt.step()
        xm.mark_step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    print(train(FTTransformer().to(device), device))
