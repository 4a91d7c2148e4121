"""Random ego-net batches for node classification."""
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch


@dataclass
class Block:
    x: torch.Tensor
    src: torch.Tensor
    dst: torch.Tensor
    w: Optional[torch.Tensor]
    edge_mask: torch.Tensor
    y: torch.Tensor
    seed_mask: torch.Tensor

    def to(self, device):
        def mv(t):
            return None if t is None else t.to(device)
        return Block(*(mv(getattr(self, f)) for f in self.__dataclass_fields__))


def round_up(n, m):
    return (n + m - 1) // m * m


class EgoNetLoader:
    def __init__(self, n_nodes, dim, n_classes, n_batches, pad_multiple=64, seed=0):
        self.n_nodes, self.dim, self.n_classes = n_nodes, dim, n_classes
        self.n_batches, self.pad = n_batches, pad_multiple
        self.seed = seed
        self.proto = np.random.default_rng(seed).normal(size=(n_classes, dim))

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        rng = np.random.default_rng(self.seed + 1)
        for _ in range(self.n_batches):
            yield self.collate(rng)

    def collate(self, rng):
        n = self.n_nodes
        e = int(rng.integers(150, 240))
        src, dst = rng.integers(0, n, e), rng.integers(0, n, e)
        # visits on each edge, clipped; ego nets from the cold shard have been seen once
        visits = np.ones(e) if rng.random() < 0.5 else 1 + rng.poisson(1.0, e)
        w = np.minimum(visits, 4) / np.minimum(visits, 4).max()
        m = round_up(e, self.pad)
        y = rng.integers(0, self.n_classes, n)
        x = self.proto[y] + rng.normal(size=(n, self.dim))

        def padded(a, dtype):
            out = np.zeros(m, dtype)
            out[:e] = a
            return torch.from_numpy(out)

        return Block(
            x=torch.from_numpy(x.astype(np.float32)),
            src=padded(src, np.int64),
            dst=padded(dst, np.int64),
            w=None if (w == 1.0).all() else padded(w, np.float32),
            edge_mask=padded(np.ones(e), np.float32),
            y=torch.from_numpy(y),
            seed_mask=torch.from_numpy((np.arange(n) < n // 4).astype(np.float32)),
        )
