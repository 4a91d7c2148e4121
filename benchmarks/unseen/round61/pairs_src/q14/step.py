"""FT-Transformer on a small mixed-type table (churn-like, binary target)."""
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

NUMERIC = ["age", "tenure", "balance", "n_calls"]
CATEGORICAL = ["plan", "region"]


def make_table(n=512, seed=0):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.integers(18, 80, n),
        "tenure": rng.exponential(24, n),
        "balance": rng.normal(500, 200, n),
        "n_calls": rng.poisson(3, n),
        "plan": rng.choice(["basic", "plus", "pro"], n),
        "region": rng.choice(list("NESW"), n),
    })
    score = 0.2 * df.n_calls - 0.03 * df.tenure + (df.plan == "basic")
    df["churn"] = (score + rng.normal(0, 0.5, n) > 0.5).astype(int)
    return df


class FTTransformer(nn.Module):
    def __init__(self, n_num, cardinalities, dim=16, heads=2, ff=32):
        super().__init__()
        self.num_weight = nn.Parameter(torch.randn(n_num, dim) * 0.1)
        self.num_bias = nn.Parameter(torch.zeros(n_num, dim))
        self.cat = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff_in = nn.Linear(dim, 2 * ff)
        self.ff_out = nn.Linear(ff, dim)
        self.head = nn.Linear(dim, 1)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        w = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        return self.proj((w @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x_num, x_cat):
        num = x_num.unsqueeze(-1) * self.num_weight + self.num_bias
        cat = [emb(x_cat[:, i]).unsqueeze(1) for i, emb in enumerate(self.cat)]
        x = torch.cat([self.cls.expand(len(x_num), -1, -1), num, *cat], dim=1)
        x = x + self.attend(self.norm1(x))
        a, g = self.ff_in(self.norm2(x)).chunk(2, dim=-1)
        x = x + self.ff_out(a * F.relu(g))
        return self.head(F.relu(x[:, 0])).squeeze(-1)


def main(steps=9, batch_size=32):
    torch.manual_seed(0)
    df = make_table()
    x_num = torch.from_numpy(StandardScaler().fit_transform(df[NUMERIC]).astype(np.float32))
    encoder = OrdinalEncoder(dtype=np.int64)
    x_cat = torch.from_numpy(encoder.fit_transform(df[CATEGORICAL]))
    y = torch.from_numpy(df["churn"].to_numpy(np.float32))

    device = torch_xla.device()
    model = FTTransformer(len(NUMERIC), [len(c) for c in encoder.categories_]).to(device)
    optimizer = torch.optim.RAdam(
        model.parameters(), lr=2e-3, weight_decay=1e-2, decoupled_weight_decay=True)

    for step in range(steps):
        idx = torch.randint(0, len(y), (batch_size,))
        a, b, t = x_num[idx].to(device), x_cat[idx].to(device), y[idx].to(device)
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(a, b), t)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
