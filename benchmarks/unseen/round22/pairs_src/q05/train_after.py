"""Sequence classification with a small pre-norm transformer (XLA)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def to_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attention(q, k, v, key_padding):
    logits = q @ k.mT
    logits = logits / 2.0
    logits = logits.masked_fill(key_padding.unsqueeze(1).unsqueeze(1), -1e9)
    return logits.softmax(-1) @ v


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc_out = nn.Linear(hidden, dim)
        self.fc_in = nn.Linear(dim, hidden)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.fc_in(self.norm(x)).relu()
        return x + self.fc_out(h)


class Attn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.o = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.q = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, key_padding):
        h = self.norm(x)
        q, k, v = (to_heads(f(h), self.heads) for f in (self.q, self.k, self.v))
        ctx = attention(q, k, v, key_padding)
        return x + self.o(ctx.transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self, vocab=30, dim=16, heads=4, depth=2, classes=5):
        super().__init__()
        self.head = nn.Linear(dim, classes)
        self.trunk = nn.ModuleList()
        for _ in range(depth):
            self.trunk.append(Attn(dim, heads))
            self.trunk.append(Mlp(dim, dim * 2))
        self.embed = nn.Embedding(vocab, dim)

    def forward(self, ids):
        keep = ids != 0
        pad = ~keep
        keep = keep.float()
        x = self.embed(ids)
        for block in self.trunk:
            x = block(x, pad) if isinstance(block, Attn) else block(x)
        total = (x * keep[..., None]).sum(dim=1)
        return self.head(total / keep.sum(dim=1, keepdim=True))


def make_data():
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 30, (24, 9), generator=g)
    lens = torch.randint(4, 10, (24,), generator=g)
    ids[torch.arange(9)[None] >= lens[:, None]] = 0
    return TensorDataset(ids, torch.randint(0, 5, (24,), generator=g))


def train_step(model, optimizer, ids, label):
    logits = model(ids)
    log_probs = F.log_softmax(logits, dim=1)
    loss = F.nll_loss(log_probs, label)
    optimizer.zero_grad()
    loss.backward()
    xm.optimizer_step(optimizer)
    return loss, logits


def main():
    torch.manual_seed(42)
    device = torch_xla.device()
    model = Classifier().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = pl.MpDeviceLoader(DataLoader(make_data(), batch_size=8), device)
    for epoch in range(2):
        for ids, label in loader:
            loss, logits = train_step(model, optimizer, ids, label)
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
