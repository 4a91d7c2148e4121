"""A process group of one, for programs with collectives, and a model to replicate."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def group() -> Iterator[None]:
    """NCCL with this process alone; the group stays for the next program."""
    if not torch.distributed.is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29531")
        torch.distributed.init_process_group("nccl", rank=0, world_size=1)
        warm = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(warm)
        torch.cuda.synchronize()
    yield


class Branches(nn.Module):
    """Two layers beside each other, each on a stream of its own."""

    def __init__(self, width: int = 256):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both."""
        current, parts = torch.cuda.current_stream(), []
        for stream, layer in zip(self.streams, self.layers, strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                parts.append(layer(x).pow(2).mean())
                parts[-1].record_stream(current)
        for stream in self.streams:
            current.wait_stream(stream)
        return parts[0] + parts[1]
