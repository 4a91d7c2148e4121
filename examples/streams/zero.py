"""DeepSpeed's ZeRO-2 with gradient hooks on two streams: ``python zero.py LOG [large]``.

Branches of the model run on a stream each, so that their gradients are copied into the bucket
on the stream of their branch. Before DeepSpeed 0.19.3 ``average_tensor`` waited for the current
stream only (issue 8061). ``large``: one weight is larger than the bucket and is reduced by
itself, a path on which later versions too wait for the current stream only.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import deepspeed
import torch
from torch import nn

import xlagraph


class Branches(nn.Module):
    """Layers beside each other, on two streams in turn."""

    def __init__(self, width: int, *, large: bool):
        super().__init__()
        widths = [width, 4 * width, width] if large else [width] * 5
        self.layers = nn.ModuleList(nn.Linear(64, one, bias=False) for one in widths)
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of all branches."""
        current, parts = torch.cuda.current_stream(), []
        for place, layer in enumerate(self.layers):
            stream = self.streams[place % 2]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                part = layer(x).pow(2).mean()
                part.record_stream(current)
                parts.append(part)
        for stream in self.streams:
            current.wait_stream(stream)
        return sum(parts[1:], parts[0])


def main(log: str, *, large: bool) -> None:
    """Warm-up steps, then three recorded ones."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29547")
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    width = 256
    net = Branches(width, large=large).cuda()
    bucket = 64 * width * 2  # the third gradient sends the first two, while backward goes on
    engine, *_ = deepspeed.initialize(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=1e-4),
        config={
            "train_micro_batch_size_per_gpu": 8,
            "bf16": {"enabled": True},
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {
                "stage": 2, "overlap_comm": True, "contiguous_gradients": True,
                "reduce_scatter": True, "reduce_bucket_size": bucket,
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
    Path(log).unlink(missing_ok=True)
    with xlagraph.record_streams(log) as next_step:
        for _ in range(3):
            step()
            next_step()
    torch.cuda.synchronize()
    print(json.dumps({"deepspeed": deepspeed.__version__, "large": large, "log": log}))


if __name__ == "__main__":
    main(sys.argv[1], large="large" in sys.argv[2:])
