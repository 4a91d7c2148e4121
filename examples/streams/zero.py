"""DeepSpeed's ZeRO-2 with gradient hooks on three streams: ``python zero.py LOG [LAYOUT]``.

The model's branches run on a stream each, in turn. A hook runs on the stream on which its
parameter was first used. DeepSpeed keeps a view of each parameter of its own partition from
``initialize`` on, so that their hooks run on the stream of that; the hooks of parameters in
another rank's partition run on the stream of their branch. Hence two ranks: as torchrun starts
them, or else rank 0 of two whose collectives do nothing (torch's fake process group).

LAYOUT:

- ``bucket``: two gradients of other streams are in a bucket that a third stream's hook sends.
  Before pull request 8080 ``average_tensor`` waited for that third stream only (issue 8061).
- ``large``: between small gradients comes one that is larger than the bucket. It is sent by the
  next hook, and has no producers that 8080 would remember. Before 8080 its own hook's stream was
  waited for when it sent the bucket that was begun.
- ``refill``: buckets enough that the first of the two buffers is filled again, from a stream that
  has not waited for its reduction. 8080 is about filling before reducing, not about this.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import deepspeed
import torch
from deepspeed.runtime.zero.stage_1_and_2 import IPGBucket
from torch import nn

import xlagraph

WIDTH = 256
LAYOUTS = {"bucket": [1] * 5, "large": [1] * 5 + [4, 1], "refill": [1] * 12}
"""Widths of the branches, in units of WIDTH; the later half is rank 1's."""


class Branches(nn.Module):
    """Layers beside each other, on three streams in turn."""

    def __init__(self, widths: list[int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, WIDTH * one, bias=False) for one in widths)
        self.streams = [torch.cuda.Stream() for _ in range(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of all branches."""
        current, parts = torch.cuda.current_stream(), []
        for place, layer in enumerate(self.layers):
            stream = self.streams[place % 3]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                part = layer(x).pow(2).mean()
                part.record_stream(current)
                parts.append(part)
        for stream in self.streams:
            current.wait_stream(stream)
        return sum(parts[1:], parts[0])


def two_ranks() -> int:
    """Joins the process group; this process's rank."""
    if "WORLD_SIZE" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
        return torch.distributed.get_rank()
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.environ["LOCAL_RANK"] = "0"
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    return 0


def main(log: str, layout: str = "bucket") -> None:
    """Warm-up steps, then three; those of rank 0 are recorded."""
    rank = two_ranks()
    net = Branches(LAYOUTS[layout]).cuda()
    engine, *_ = deepspeed.initialize(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=1e-4),
        config={
            "train_micro_batch_size_per_gpu": 8,
            "bf16": {"enabled": True},
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {
                "stage": 2, "overlap_comm": True, "contiguous_gradients": True,
                "reduce_scatter": True, "reduce_bucket_size": 2 * 64 * WIDTH,
            },
        },
    )  # fmt: skip

    def step() -> None:
        x = torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
        engine.backward(engine(x))
        engine.step()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    if rank == 0:
        Path(log).unlink(missing_ok=True)
        with xlagraph.record_streams(log) as next_step:
            for _ in range(3):
                step()
                next_step()
    else:
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    if rank == 0:
        fixed = "copy_streams" in IPGBucket.__dataclass_fields__
        group = torch.distributed.get_backend()
        print(json.dumps({"deepspeed": deepspeed.__version__, "fixed": fixed, "group": group}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
