"""Feature-token transformer for a two-target tabular problem."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch_xla
from torch import nn
from torch.nn import functional as F


@dataclass
class Settings:
    numeric: int = 5
    categories: list = field(default_factory=lambda: [4, 6])
    width: int = 16
    n_heads: int = 4
    hidden: int = 24
    batch_size: int = 10
    learning_rate: float = 5e-3
    flag_weight: float = 0.3

    @property
    def n_tokens(self):
        return 1 + self.numeric + len(self.categories)


class MultiHeadAttention(nn.Module):

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.merge = nn.Linear(width, width)

    def forward(self, x, hidden_tokens):
        b, n, w = x.shape
        v = self.value(x).reshape(b, n, self.n_heads, -1)
        k = self.key(x).reshape(b, n, self.n_heads, -1)
        q = self.query(x).reshape(b, n, self.n_heads, -1)
        logits = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        logits = logits.masked_fill(hidden_tokens.view(b, 1, 1, n), -1e9)
        weights = logits.softmax(-1)
        out = torch.einsum("bhqk,bkhd->bqhd", weights, v)
        return self.merge(out.reshape(b, n, w))


class GatedMLP(nn.Module):

    def __init__(self, width, hidden):
        super().__init__()
        self.hidden = hidden
        self.proj_in = nn.Linear(width, 2 * hidden)
        self.proj_out = nn.Linear(hidden, width)

    def forward(self, x):
        y = self.proj_in(x)
        value, gate = y[..., :self.hidden], y[..., self.hidden:]
        return self.proj_out(F.gelu(gate) * value)


class TabularTransformer(nn.Module):

    def __init__(self, s: Settings):
        super().__init__()
        self.token_scale = nn.Parameter(torch.zeros(s.numeric, s.width))
        self.token_shift = nn.Parameter(torch.zeros(s.numeric, s.width))
        self.embeddings = nn.ModuleList(
            nn.Embedding(c, s.width) for c in s.categories)
        self.summary = nn.Parameter(torch.zeros(1, 1, s.width))
        self.pre_attention = nn.LayerNorm(s.width)
        self.attention = MultiHeadAttention(s.width, s.n_heads)
        self.pre_mlp = nn.LayerNorm(s.width)
        self.mlp = GatedMLP(s.width, s.hidden)
        self.final = nn.LayerNorm(s.width)
        self.value_head = nn.Linear(s.width, 1)
        self.flag_head = nn.Linear(s.width, 1)

    def tokenize(self, numeric, categorical):
        cols = [emb(c) for emb, c in zip(self.embeddings, categorical.unbind(1))]
        numeric = self.token_shift + self.token_scale * numeric[..., None]
        summary = self.summary.repeat(numeric.shape[0], 1, 1)
        return torch.cat((summary, numeric, torch.stack(cols, dim=1)), dim=1)

    def forward(self, numeric, categorical, hidden_tokens):
        x = self.tokenize(numeric, categorical)
        x = self.attention(self.pre_attention(x), hidden_tokens) + x
        x = self.mlp(self.pre_mlp(x)) + x
        summary = self.final(x.select(1, 0))
        return {
            "flag": self.flag_head(summary)[:, 0],
            "value": self.value_head(summary)[:, 0],
        }


def reset_parameters(model, seed):
    rng = np.random.RandomState(seed)
    ordered = sorted(model.parameters(), key=lambda p: (p.dim(), p.numel()))
    for p in ordered:
        if p.dim() > 1:
            p.data.copy_(torch.from_numpy(rng.randn(*p.shape) * 0.2))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def sample(rng, s):
    num = rng.randn(s.batch_size, s.numeric).astype("f4")
    cat = np.stack([rng.randint(0, c, s.batch_size) for c in s.categories], 1)
    hide = np.zeros((s.batch_size, s.n_tokens), bool)
    hide[:, 1:1 + s.numeric] = rng.rand(s.batch_size, s.numeric) < 0.2
    target = (num[:, 0] * 0.5 + 0.3 * (cat[:, 0] - 1.5))
    return dict(numeric=num, categorical=cat, hidden_tokens=hide), dict(
        value=target.astype("f4"), flag=(target > 0).astype("f4"))


class Trainer:

    def __init__(self, s):
        self.s, self.device = s, torch_xla.device()
        self.model = TabularTransformer(s)
        reset_parameters(self.model, 0)
        self.model = self.model.to(self.device)
        self.optimizer = torch.optim.SGD(
            list(self.model.parameters()), lr=s.learning_rate, momentum=0.9)
        torch_xla.sync()

    def to_device(self, tree):
        return {k: torch.from_numpy(a).to(self.device) for k, a in tree.items()}

    def step(self, inputs, targets):
        out = self.model(**self.to_device(inputs))
        targets = self.to_device(targets)
        self.optimizer.zero_grad()
        flag = F.binary_cross_entropy_with_logits(out["flag"], targets["flag"])
        value = F.mse_loss(out["value"], targets["value"])
        total = self.s.flag_weight * flag + value
        total.backward()
        self.optimizer.step()
        torch_xla.sync()
        return total, value, flag


if __name__ == "__main__":
    settings = Settings()
    rng = np.random.RandomState(1)
    trainer = Trainer(settings)
    for i in range(5):
        losses = trainer.step(*sample(rng, settings))
        print(i, " ".join(f"{v.item():.6f}" for v in losses))
