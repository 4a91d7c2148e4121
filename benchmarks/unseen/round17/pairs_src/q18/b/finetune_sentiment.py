# -*- coding: utf-8 -*-
"""
Fine-tuning of the review encoder.

Usage:
    python finetune_sentiment.py [--steps N]
"""
from __future__ import annotations

import argparse
import logging
from typing import Iterator, Tuple

import torch
import torch_xla
from torch import Tensor, nn
from torch.optim import SGD

LOG = logging.getLogger("finetune")
PAD = 0


class ReviewEncoderBlock(nn.Module):
    """Post-norm block; attention and feed-forward in one module."""

    def __init__(self, width: int, heads: int, inner: int):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.ffn_down = nn.Linear(inner, width)
        self.ffn_up = nn.Linear(width, inner)
        self.after_ffn, self.after_attn = nn.LayerNorm(width), nn.LayerNorm(width)
        self.proj_v, self.proj_k, self.proj_q, self.proj_o = (
            nn.Linear(width, width) for _ in range(4)
        )

    def attend(self, h: Tensor, padding: Tensor) -> Tensor:
        n, t, _ = h.shape

        def heads_first(z: Tensor) -> Tensor:
            return z.view(n, t, self.heads, self.head_dim).transpose(1, 2)

        q, k, v = (heads_first(proj(h)) for proj in (self.proj_q, self.proj_k, self.proj_v))
        logits = q @ k.transpose(-1, -2) / self.head_dim**0.5
        logits = logits.masked_fill(padding[:, None, None, :], -1e4)
        mixed = logits.softmax(dim=-1) @ v
        return self.proj_o(mixed.transpose(1, 2).reshape(h.shape))

    def forward(self, h: Tensor, padding: Tensor) -> Tensor:
        h = self.after_attn(h + self.attend(h, padding))
        inner = self.ffn_up(h).relu()
        return self.after_ffn(h + self.ffn_down(inner))


class ReviewClassifier(nn.Module):
    def __init__(self, vocab_size: int = 200, width: int = 32, heads: int = 4, length: int = 20):
        super().__init__()
        self.head = nn.Linear(width, 2)
        self.top = ReviewEncoderBlock(width, heads, 64)
        self.bottom = ReviewEncoderBlock(width, heads, 64)
        self.pos = nn.Parameter(torch.empty(length, width).normal_(std=0.02))
        self.word = nn.Embedding(vocab_size, width)

    def pool(self, h: Tensor, padding: Tensor) -> Tensor:
        real = (~padding).float().unsqueeze(-1)
        return (h * real).sum(dim=1) / real.sum(dim=1)

    def forward(self, ids: Tensor) -> Tensor:
        padding = ids == PAD
        h = self.word(ids) + self.pos
        h = self.bottom(h, padding)
        h = self.top(h, padding)
        return self.head(self.pool(h, padding))


def batches(n: int, t: int, count: int) -> Iterator[Tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(99)
    for _ in range(count):
        words = torch.randint(1, 200, (n, t), generator=rng)
        words[:, t - 4 :] = PAD
        yield words, torch.randint(0, 2, (n,), generator=rng)


def finetune(args: argparse.Namespace) -> None:
    device = torch_xla.device()
    net = ReviewClassifier().to(device)
    optim = SGD(net.parameters(), lr=args.lr)
    for i, (words, stars) in enumerate(batches(8, 20, args.steps)):
        stars, words = stars.to(device), words.to(device)
        optim.zero_grad()
        prediction = net(words)
        confidence = prediction.softmax(-1).amax(-1)
        cost = nn.functional.cross_entropy(prediction, stars)
        if args.trace_confidence:
            LOG.info("confidence %s", confidence.tolist())
        del confidence
        cost.backward()
        optim.step()
        torch_xla.sync()
        LOG.info("%d: %.4f", i, cost.item())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--trace-confidence", action="store_true")
    torch.manual_seed(123)
    finetune(parser.parse_args())
