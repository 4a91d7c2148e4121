"""Nested FSDP whose reduce-scatter buckets carry gradients into the next step.

The cause of pytorch/xla issue 4160: a bucketed reduce-scatter that flushes only when it is
full and has no flush at the end of backward. What is left in a bucket is reduced one step
later, so successive steps trace different graphs and each of them compiles.

Settings, by environment variable:
    MODE=carry|fixed  carry (default) leaves gradients in the buckets; fixed flushes them
    BLOCKS, HIDDEN    size of the model: nested blocks (default 3), width (default 64)
    BUCKET            capacity of a bucket in MB (default 0.2)
    STEPS             training steps (default 6)

The program knows nothing of xlagraph:  XLAGRAPH=1 python examples/fsdp_bucket_carry.py
"""

from __future__ import annotations

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.debug.metrics as met
from torch import nn
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel
from torch_xla.distributed.fsdp import xla_fully_sharded_data_parallel as fsdp_module
from torch_xla.distributed.fsdp.utils import BucketizedReduceScatter

CARRY = os.environ.get("MODE", "carry") == "carry"
BLOCKS = int(os.environ.get("BLOCKS", "3"))
HIDDEN = int(os.environ.get("HIDDEN", "64"))
STEPS = int(os.environ.get("STEPS", "6"))
BUCKET_MB = float(os.environ.get("BUCKET", "0.2"))
BATCH, TOKENS, CLASSES = 2, 8, 10


class CarryOverBucket(BucketizedReduceScatter):
    """Flush only when full: leftovers wait for the next backward."""

    def flush(self) -> None:
        """Reduce what waits, unless there is room for more."""
        if not CARRY or self.bucket_watermark > self.bucket_size_bytes:
            super().flush()


def shard(module: nn.Module) -> XlaFullyShardedDataParallel:
    """Wrap ``module`` in FSDP with a bucketed reduce-scatter."""
    return XlaFullyShardedDataParallel(
        module.to("xla"),
        reduce_scatter_bucket_size_mb=BUCKET_MB,
        # Coalesced reduce-scatter with pinned layouts fails a check in torch_xla 2.9.
        pin_layout_in_collective_ops=False,
    )


class Block(nn.Module):
    """A feed-forward block whose first layer is sharded on its own."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.inner = shard(nn.Linear(hidden, hidden))
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the block to ``x`` of shape (batch, tokens, hidden)."""
        return self.norm(x + self.down(torch.relu(self.up(self.inner(x)))))


class Model(nn.Module):
    """A stack of sharded blocks and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(shard(Block(HIDDEN)) for _ in range(BLOCKS))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores for each token."""
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    """Train on random data and print what torch_xla counted."""
    fsdp_module.BucketizedReduceScatter = CarryOverBucket
    torch.manual_seed(0)
    model = shard(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch_xla.sync()
    for step in range(STEPS):
        x = torch.randn(BATCH, TOKENS, HIDDEN).to("xla")
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        compiled = met.counter_value("UncachedCompile")
        print(f"step {step}: {compiled} compiled, {met.counter_value('CachedCompile') or 0} hits")
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
