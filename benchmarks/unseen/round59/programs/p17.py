"""Tabular regression: numeric + categorical embeddings, full-batch training with validation-based checkpointing."""
import copy

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OrdinalEncoder, QuantileTransformer

NUMERIC = ["area", "age", "rooms", "distance", "income"]
CATEGORICAL = ["district"]


def make_frame(n=600, seed=17):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "area": rng.lognormal(4.2, 0.4, n),
        "age": rng.integers(0, 90, n).astype(float),
        "rooms": rng.integers(1, 7, n).astype(float),
        "distance": rng.gamma(2.0, 3.0, n),
        "income": rng.lognormal(3.5, 0.5, n),
        "district": rng.choice(list("ABCDEFGH"), n),
    })
    bonus = df["district"].map({c: i * 0.08 for i, c in enumerate("ABCDEFGH")})
    y = (np.log(df["area"]) - 0.004 * df["age"] - 0.05 * df["distance"] + 0.3 * np.log(df["income"])
         + bonus + rng.normal(0, 0.1, n))
    df["log_price"] = y
    return df


def prepare(df):
    train, valid = train_test_split(df, test_size=0.25, random_state=0)
    num = QuantileTransformer(n_quantiles=100, output_distribution="normal").fit(train[NUMERIC])
    cat = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(train[CATEGORICAL])
    mean, std = train["log_price"].mean(), train["log_price"].std()

    def encode(part):
        xn = torch.tensor(num.transform(part[NUMERIC]), dtype=torch.float32)
        xc = torch.tensor(cat.transform(part[CATEGORICAL]) + 1, dtype=torch.long)
        y = torch.tensor(((part["log_price"] - mean) / std).to_numpy(), dtype=torch.float32)
        return xn, xc, y

    cards = [len(c) + 1 for c in cat.categories_]
    return encode(train), encode(valid), cards, float(std)


class PeriodicEmbedding(nn.Module):
    """cos/sin features of every numeric column with trainable frequencies."""

    def __init__(self, features, k=4, sigma=0.3):
        super().__init__()
        self.freq = nn.Parameter(torch.randn(features, k) * sigma)

    def forward(self, x):
        v = 2 * torch.pi * self.freq * x.unsqueeze(-1)
        return torch.cat([v.cos(), v.sin()], dim=-1).flatten(1)


class TabularNet(nn.Module):
    def __init__(self, cards, k=4, cat_dim=3, width=24):
        super().__init__()
        self.periodic = PeriodicEmbedding(len(NUMERIC), k)
        self.tables = nn.ModuleList([nn.Embedding(c, cat_dim) for c in cards])
        self.hidden = nn.Linear(len(NUMERIC) * (2 * k + 1) + cat_dim * len(cards), width)
        self.out = nn.Linear(width, 1)

    def forward(self, xn, xc):
        parts = [xn, self.periodic(xn)]
        parts += [table(xc[:, i]) for i, table in enumerate(self.tables)]
        return self.out(F.relu(self.hidden(torch.cat(parts, dim=1)))).squeeze(1)


class Checkpoint:
    """Keeps the weights of the best validation score."""

    def __init__(self, patience=3):
        self.best, self.state, self.patience, self.bad = float("inf"), None, patience, 0

    def update(self, score, model):
        if score < self.best - 1e-4:
            self.best, self.bad = score, 0
            self.state = {k: v.detach().cpu() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad < self.patience


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    train, valid, cards, scale = prepare(make_frame())
    xn, xc, y = (t.to(device) for t in train)
    vn, vc, vy = (t.to(device) for t in valid)

    model = TabularNet(cards).to(device)
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3, step_sizes=(1e-6, 0.1))
    keeper = Checkpoint()
    torch_xla.sync()

    for epoch in range(16):
        model.train()
        optimizer.zero_grad()
        pred = model(xn, xc)
        fit = F.smooth_l1_loss(pred, y)
        penalty = 1e-4 * sum(p.square().sum() for p in model.parameters())
        (fit + penalty).backward()
        optimizer.step()
        torch_xla.sync()

        if epoch % 4 == 3:
            model.eval()
            with torch.no_grad():
                rmse = F.mse_loss(model(vn, vc), vy).sqrt().item() * scale
            print(f"epoch {epoch + 1:2d}  fit {fit.item():.4f}  valid rmse {rmse:.4f}")
            if not keeper.update(rmse, model):
                break

    best = copy.deepcopy(model).cpu()
    best.load_state_dict(keeper.state)
    print(f"best validation rmse {keeper.best:.4f}")


if __name__ == "__main__":
    main()
