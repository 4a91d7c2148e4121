"""Card-fraud scoring: feature-tokenizer transformer on tabular transactions with a class-balanced focal objective."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from sklearn.datasets import make_classification
from sklearn.preprocessing import QuantileTransformer
from torch.utils.data import DataLoader, TensorDataset

CARDINALITIES = (12, 30, 5)


def load_transactions(n, seed):
    x, y = make_classification(n_samples=n, n_features=10, n_informative=6, weights=[0.93], class_sep=1.2,
                               flip_y=0.01, random_state=seed)
    x = QuantileTransformer(output_distribution="normal", n_quantiles=100, random_state=seed).fit_transform(x)
    rng = np.random.default_rng(seed)
    cats = []
    for c in CARDINALITIES:
        base = rng.integers(0, c, size=n)
        cats.append(np.where(y == 1, base // 2, base))
    return (torch.from_numpy(x).float(), torch.from_numpy(np.stack(cats, axis=1)).long(),
            torch.from_numpy(y).float())


class FeatureTokenizer(nn.Module):
    def __init__(self, num_numeric, cardinalities, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_numeric, dim) / math.sqrt(dim))
        self.bias = nn.Parameter(torch.zeros(num_numeric, dim))
        self.embeddings = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, numeric, categorical):
        tokens = [numeric.unsqueeze(-1) * self.weight + self.bias]
        tokens += [e(categorical[:, i]).unsqueeze(1) for i, e in enumerate(self.embeddings)]
        return torch.cat([self.cls.expand(numeric.size(0), -1, -1), *tokens], dim=1)


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.norm2(x))


class FraudNet(nn.Module):
    def __init__(self, num_numeric, cardinalities, dim=24, depth=1, heads=4, dropout=0.1):
        super().__init__()
        self.tokens = FeatureTokenizer(num_numeric, cardinalities, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads, dropout) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, numeric, categorical):
        return self.head(self.blocks(self.tokens(numeric, categorical))[:, 0]).squeeze(-1)


class FocalLoss(nn.Module):
    """Class-balanced focal loss; the focus ramps up as the easy negatives get solved."""

    def __init__(self, pos_fraction, gamma_start=0.5, gamma_end=3.0, ramp_steps=40, beta=0.999):
        super().__init__()
        self.gamma_start, self.gamma_end, self.ramp_steps = gamma_start, gamma_end, ramp_steps
        self.gamma = gamma_start
        weight = [(1 - beta) / (1 - beta ** (1000 * f)) for f in (1 - pos_fraction, pos_fraction)]
        total = sum(weight)
        self.w_neg, self.w_pos = 2 * weight[0] / total, 2 * weight[1] / total

    def set_progress(self, step):
        frac = min(step / self.ramp_steps, 1.0)
        self.gamma = self.gamma_start + (self.gamma_end - self.gamma_start) * 0.5 * (1 - math.cos(math.pi * frac))

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = torch.exp(-ce)
        weight = target * self.w_pos + (1.0 - target) * self.w_neg
        return (weight * (1.0 - pt).clamp(min=1e-6) ** self.gamma * ce).mean()


def recall_at_budget(logits, target, budget=0.1):
    k = max(int(budget * logits.numel()), 1)
    top = logits.topk(k).indices
    return target[top].sum() / target.sum().clamp(min=1.0)


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    numeric, categorical, label = load_transactions(1792, seed=29)
    train = TensorDataset(numeric[:1280], categorical[:1280], label[:1280])
    test = [t[1280:].to(device) for t in (numeric, categorical, label)]
    loader = DataLoader(train, batch_size=128, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(1))

    model = FraudNet(numeric.size(1), CARDINALITIES).to(device)
    criterion = FocalLoss(pos_fraction=float(label[:1280].mean()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)

    step = 0
    for epoch in range(2):
        model.train()
        for batch in loader:
            xn, xc, y = (t.to(device) for t in batch)
            criterion.set_progress(step)
            loss = criterion(model(xn, xc), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            step += 1

        model.eval()
        with torch.no_grad():
            recall = recall_at_budget(model(test[0], test[1]), test[2])
        torch_xla.sync()
        print(f"epoch {epoch + 1}  loss {loss.item():.4f}  recall@10% {recall.item():.3f}")


if __name__ == "__main__":
    main()
