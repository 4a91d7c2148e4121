"""A process group of one, for programs with collectives."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

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
