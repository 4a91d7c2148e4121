"""Sentiment classification with a two-layer transformer encoder."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.n_heads, d // self.n_heads).transpose(1, 2)

    def forward(self, x, pad_mask):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(pad_mask[:, None, None, :], -1e4)
        ctx = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out(ctx.transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, pad_mask):
        x = self.norm1(x + self.attention(x, pad_mask))
        return self.norm2(x + self.linear2(torch.relu(self.linear1(x))))


class SentimentModel(nn.Module):
    def __init__(self, vocab=200, d_model=32, n_heads=4, n_layers=2, max_len=20):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d_model)
        self.positions = nn.Parameter(torch.randn(max_len, d_model) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, 64) for _ in range(n_layers))
        self.classifier = nn.Linear(d_model, 2)

    def forward(self, ids):
        pad_mask = ids == 0
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = layer(x, pad_mask)
        keep = (~pad_mask).float().unsqueeze(-1)
        pooled = (x * keep).sum(dim=1) / keep.sum(dim=1)
        return self.classifier(pooled)


def reviews(batch, length, steps):
    g = torch.Generator().manual_seed(6)
    for _ in range(steps):
        ids = torch.randint(1, 200, (batch, length), generator=g)
        lengths = torch.randint(5, length + 1, (batch, 1), generator=g)
        ids = ids * (torch.arange(length) < lengths)
        yield ids, (ids.sum(dim=1) % 2)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = SentimentModel().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (ids, labels) in enumerate(reviews(8, 20, 3)):
        ids, labels = ids.to(device), labels.to(device)
        optimizer.zero_grad()
        logits = model(ids)
        loss = criterion(logits, labels)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        xm.master_print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
