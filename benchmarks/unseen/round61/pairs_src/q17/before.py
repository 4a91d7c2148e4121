"""Train a shared-weight dual encoder for passage retrieval with in-batch negatives."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class PairDataset:
    """Tokenised (query, passage) pairs padded to fixed lengths."""

    def __init__(self, n_pairs=64, vocab=90, q_len=6, p_len=12, seed=0):
        rng = np.random.default_rng(seed)
        passages = rng.integers(4, vocab, size=(n_pairs, p_len))
        lengths = rng.integers(p_len // 2, p_len + 1, size=n_pairs)
        p_mask = np.arange(p_len)[None] < lengths[:, None]
        starts = rng.integers(0, p_len // 2 - q_len // 2, size=n_pairs)
        queries = np.stack([np.pad(p[s:s + q_len // 2], (1, q_len - q_len // 2 - 1),
                                   constant_values=2)
                            for p, s in zip(passages, starts)])
        self.q_ids = torch.from_numpy(queries)
        self.q_mask = torch.ones_like(self.q_ids)
        self.p_ids = torch.from_numpy(np.where(p_mask, passages, 0))
        self.p_mask = torch.from_numpy(p_mask.astype(np.int64))

    def __len__(self):
        return len(self.q_ids)

    def batch(self, idx, device):
        query = {"input_ids": self.q_ids[idx], "attention_mask": self.q_mask[idx]}
        passage = {"input_ids": self.p_ids[idx], "attention_mask": self.p_mask[idx]}
        return ({k: v.to(device) for k, v in query.items()},
                {k: v.to(device) for k, v in passage.items()})


class TextEncoder(nn.Module):
    """One pre-norm attention layer over token embeddings."""

    def __init__(self, vocab, dim, heads=2, max_len=16):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, input_ids, attention_mask):
        b, t = input_ids.shape
        x = self.tokens(input_ids) + self.positions[:t]
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(attention_mask[:, None, None] == 0, -1e4)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)
        return x + self.out(y)


class DualEncoder(nn.Module):
    def __init__(self, vocab=90, dim=16):
        super().__init__()
        self.text = TextEncoder(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def encode(self, features):
        hidden = self.text(**features)
        mask = features["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1)
        return F.normalize(self.proj(pooled), dim=-1)


def contrastive_loss(q, p, temperature):
    scores = q @ p.t() / temperature
    target = torch.arange(len(q), device=q.device)
    return F.cross_entropy(scores, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--temperature", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    train = PairDataset(seed=0)
    model = DualEncoder().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    model.train()
    for step in range(args.steps):
        idx = torch.randint(0, len(train), (args.batch_size,))
        query, passage = train.batch(idx, device)
        q = model.encode(query)
        p = model.encode(passage)
        loss = contrastive_loss(q, p, args.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
