"""Sequence classification with a small pre-norm transformer (XLA)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / 2.0
        scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        ctx = torch.matmul(F.softmax(scores, dim=-1), v)
        ctx = ctx.permute(0, 2, 1, 3).reshape(x.shape)
        return self.out(ctx)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_attn = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.ln_mlp = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, dim * 2)
        self.down = nn.Linear(dim * 2, dim)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_attn(x), mask)
        x = x + self.down(F.relu(self.up(self.ln_mlp(x))))
        return x


class Classifier(nn.Module):
    def __init__(self, vocab=30, dim=16, heads=4, depth=2, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        mask = ids != 0
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, mask)
        weights = mask.float()
        pooled = (x * weights.unsqueeze(-1)).sum(1) / weights.sum(1, keepdim=True)
        return self.head(pooled)


def make_data():
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 30, (24, 9), generator=g)
    lens = torch.randint(4, 10, (24,), generator=g)
    ids[torch.arange(9)[None] >= lens[:, None]] = 0
    return TensorDataset(ids, torch.randint(0, 5, (24,), generator=g))


def main():
    torch.manual_seed(42)
    device = torch_xla.device()
    model = Classifier().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = pl.MpDeviceLoader(DataLoader(make_data(), batch_size=8), device)
    for epoch in range(2):
        for ids, label in loader:
            optimizer.zero_grad()
            logits = model(ids)
            loss = F.cross_entropy(logits, label)
            loss.backward()
            xm.optimizer_step(optimizer)
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
