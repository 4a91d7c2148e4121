"""Credit-default style tabular model: frozen category embeddings first, then everything, RAdam, accumulation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CARDS = (7, 12, 5)
NUMERIC = 6
ACCUM = 2
MICRO_BATCH = 16
UPDATES = 34
UNFREEZE_AT = 14
EVAL_EVERY = 8


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    cat = np.stack([rng.integers(0, c, n) for c in CARDS], axis=1)
    num = rng.normal(size=(n, NUMERIC)).astype(np.float32)
    logit = 1.2 * num[:, 0] - 0.8 * num[:, 1] * num[:, 2] + (cat[:, 0] % 3 == 0) * 1.5 - 0.4 * (cat[:, 1] > 6) - 0.5
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    num[rng.uniform(size=num.shape) < 0.05] = np.nan
    return torch.from_numpy(cat), torch.from_numpy(num), torch.from_numpy(y)


class Standardizer:
    def fit(self, num):
        filled = torch.nan_to_num(num)
        self.mean, self.std = filled.mean(0), filled.std(0)
        return self

    def __call__(self, num):
        missing = torch.isnan(num).float()
        scaled = (torch.nan_to_num(num) - self.mean) / self.std
        return torch.cat([scaled * (1 - missing), missing], dim=1)


class ResidualBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class TabResNet(nn.Module):
    def __init__(self, dim=24, emb=4):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(c, emb) for c in CARDS])
        self.stem = nn.Linear(emb * len(CARDS) + 2 * NUMERIC, dim)
        self.blocks = nn.Sequential(ResidualBlock(dim), ResidualBlock(dim))
        self.head = nn.Linear(dim, 1)

    def forward(self, cat, num):
        e = [t(cat[:, i]) for i, t in enumerate(self.tables)]
        return self.head(self.blocks(self.stem(torch.cat(e + [num], dim=1)))).squeeze(1)


def batches(n, size, rng):
    while True:
        perm = rng.permutation(n)
        for i in range(0, n - size + 1, size):
            yield torch.from_numpy(perm[i:i + size])


def auc(scores, y):
    order = np.argsort(scores)
    rank = np.empty(len(scores))
    rank[order] = np.arange(1, len(scores) + 1)
    pos = y > 0.5
    return (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / max(pos.sum() * (~pos).sum(), 1)


@torch.no_grad()
def validate(model, cat, num, y, size, device):
    model.eval()
    scores = []
    for i in range(0, len(y), size):
        out = model(cat[i:i + size].to(device), num[i:i + size].to(device))
        scores.append(torch.sigmoid(out).cpu())
    model.train()
    return auc(torch.cat(scores).numpy(), y.numpy())


def main():
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    device = torch_xla.device()
    cat, num, y = make_table(400, 0)
    vcat, vnum, vy = make_table(96, 1)
    scale = Standardizer().fit(num)
    num, vnum = scale(num), scale(vnum)

    model = TabResNet().to(device)
    model.tables.requires_grad_(False)
    opt = torch.optim.RAdam(model.parameters(), lr=4e-3, weight_decay=1e-4)
    stream = batches(len(y), MICRO_BATCH, rng)
    torch_xla.sync()

    for update in range(UPDATES):
        if update == UNFREEZE_AT:
            model.tables.requires_grad_(True)
        opt.zero_grad(set_to_none=False)
        for micro in range(ACCUM):
            idx = next(stream)
            logits = model(cat[idx].to(device), num[idx].to(device))
            loss = F.binary_cross_entropy_with_logits(logits, y[idx].to(device)) / ACCUM
            loss.backward()
            if micro + 1 < ACCUM:
                torch_xla.sync()
        opt.step()
        torch_xla.sync()
        if (update + 1) % EVAL_EVERY == 0:
            score = validate(model, vcat, vnum, vy, 32, device)
            print(f"update {update + 1} loss {loss.item() * ACCUM:.4f} auc {score:.3f}")


if __name__ == "__main__":
    main()
