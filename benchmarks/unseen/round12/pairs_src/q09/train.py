"""DeepFM click model trained shard by shard."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FIELDS = [30, 50, 12, 8]
DENSE = 4


def read_shard(index, rows=128):
    rng = np.random.default_rng(index)
    shard = {
        "sparse": np.stack([rng.integers(0, f, rows) for f in FIELDS], 1),
        "dense": rng.lognormal(size=(rows, DENSE)).astype(np.float32),
    }
    z = 0.05 * shard["sparse"][:, 0] - 0.8 + 0.2 * shard["dense"][:, 1]
    shard["click"] = (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(np.float32)
    if index % 3 != 2:
        shard["weight"] = rng.uniform(0.5, 2.0, rows).astype(np.float32)
    return shard


def shard_batches(shard, size):
    rows = len(shard["click"])
    weight = shard["weight"] if "weight" in shard else np.ones(rows)
    for i in range(0, rows, size):
        s = slice(i, i + size)
        yield (torch.from_numpy(shard["sparse"][s]), torch.from_numpy(np.log1p(shard["dense"][s])),
               torch.from_numpy(shard["click"][s]), torch.from_numpy(weight[s]))


class FeatureEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.table = nn.Embedding(sum(FIELDS), dim)
        self.register_buffer("offset", torch.tensor(np.cumsum([0] + FIELDS[:-1])))

    def forward(self, sparse):
        return self.table(sparse + self.offset)


class DeepFM(nn.Module):
    def __init__(self, dim=8, hidden=(32, 16)):
        super().__init__()
        self.linear = FeatureEmbedding(1)
        self.embed = FeatureEmbedding(dim)
        self.dense = nn.Linear(DENSE, 1)
        layers, n = [], len(FIELDS) * dim + DENSE
        for h in hidden:
            layers += [nn.Linear(n, h), nn.BatchNorm1d(h), nn.ReLU()]
            n = h
        self.deep = nn.Sequential(*layers, nn.Linear(n, 1))

    def forward(self, sparse, dense):
        e = self.embed(sparse)
        fm = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1)
        first = self.linear(sparse).sum((1, 2)) + self.dense(dense).squeeze(1)
        deep = self.deep(torch.cat([e.flatten(1), dense], 1)).squeeze(1)
        return first + fm + deep


class ClickTrainer:
    def __init__(self):
        self.device = torch_xla.device()
        self.model = DeepFM().to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=0.02)
        self.step = 0

    def train_shard(self, index):
        for batch in shard_batches(read_shard(index), 32):
            sparse, dense, click, weight = (t.to(self.device) for t in batch)
            logit = self.model(sparse, dense)
            per_row = F.binary_cross_entropy_with_logits(logit, click, reduction="none")
            loss = (per_row * weight).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            torch_xla.sync()
            self.step += 1
        print(f"shard {index} step {self.step} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = ClickTrainer()
    for shard in range(4):
        trainer.train_shard(shard)
