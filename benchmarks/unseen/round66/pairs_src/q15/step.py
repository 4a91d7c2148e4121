"""Credit-default model: FT-Transformer over monthly parquet-like shards."""
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM = ["age", "income", "n_loans", "months_since_delinquency", "balance"]
CAT = {"region": 7, "channel": 4, "product": 5}


def load_shard(month, rows=96):
    rng = np.random.default_rng(month)
    df = pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "income": rng.integers(10, 300, rows),
            "n_loans": rng.integers(0, 9, rows),
            "months_since_delinquency": rng.integers(0, 120, rows),
            "balance": rng.integers(0, 50000, rows),
            **{c: rng.integers(0, k, rows) for c, k in CAT.items()},
            "default": rng.integers(0, 2, rows),
        }
    )
    if month >= 202402:
        clean = rng.random(rows) < 0.3
        df.loc[clean, "months_since_delinquency"] = np.nan
    return df


class ShardDataset(torch.utils.data.Dataset):
    def __init__(self, df):
        filled = df[NUM].fillna(df[NUM].median())
        self.num = torch.from_numpy(filled.to_numpy())
        self.cat = torch.from_numpy(df[list(CAT)].to_numpy())
        self.y = torch.from_numpy(df["default"].to_numpy(dtype=np.float32))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]


class FTTransformer(nn.Module):
    def __init__(self, d=16, heads=2, p=0.1):
        super().__init__()
        self.register_buffer("mean", torch.tensor([50.0, 150.0, 4.0, 60.0, 25000.0]))
        self.register_buffer("std", torch.tensor([20.0, 80.0, 2.5, 35.0, 14000.0]))
        self.num_w = nn.Parameter(torch.randn(len(NUM), d) * 0.1)
        self.num_b = nn.Parameter(torch.zeros(len(NUM), d))
        self.cat_emb = nn.ModuleList(nn.Embedding(k, d) for k in CAT.values())
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff1, self.ff2 = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)
        self.drop = nn.Dropout(p)
        self.head = nn.Linear(d, 1)
        self.heads = heads

    def attend(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(B, T, D))

    def forward(self, num, cat):
        num = (num.float() - self.mean) / self.std
        tok = [num[..., None] * self.num_w + self.num_b]
        tok += [e(cat[:, i])[:, None] for i, e in enumerate(self.cat_emb)]
        x = torch.cat([self.cls.expand(num.shape[0], -1, -1)] + tok, 1)
        x = x + self.drop(self.attend(self.norm1(x)))
        a, g = self.ff1(self.norm2(x)).chunk(2, -1)
        x = x + self.ff2(self.drop(a * F.relu(g)))
        return self.head(x[:, 0]).squeeze(-1)


@torch.no_grad()
def validate(model, df, device):
    model.eval()
    ds = ShardDataset(df)
    p = model(ds.num.to(device), ds.cat.to(device)).sigmoid()
    xm.mark_step()
    return float(((p.cpu() > 0.5).float() == ds.y).float().mean())


def fit(model, shards, holdout, device, batch_size=32):
    opt = torch.optim.SGD(model.parameters(), lr=5e-3, weight_decay=1e-4)
    for month in shards:
        loader = torch.utils.data.DataLoader(
            ShardDataset(load_shard(month)), batch_size=batch_size, shuffle=True, drop_last=True
        )
        for num, cat, y in loader:
            num, cat, y = num.to(device), cat.to(device), y.to(device)
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(num, cat), y)
            loss.backward()
            opt.step()
            xm.mark_step()
        print(month, f"loss {loss.item():.4f}", f"acc {validate(model, holdout, device):.3f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(5)
    dev = torch_xla.device()
    net = FTTransformer().to(dev).train()
    xm.mark_step()
    fit(net, [202401, 202402], load_shard(202312, 64), dev)
