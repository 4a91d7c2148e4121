"""Which rank a process is: what torch_xla says, else what the launcher's environment says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Identity(NamedTuple):
    """A process's place in its job."""

    rank: int
    world_size: int
    """0 where it is not known."""
    local_rank: int
    source: str
    """``torch_xla``, the variable that gave the rank, or ``""``: there is but this one process."""


class _Launcher(NamedTuple):
    """The variables of one way to start a job; the first of each that is set counts."""

    rank: str
    world: tuple[str, ...]
    local: tuple[str, ...] = ()


_LAUNCHERS = (
    _Launcher("RANK", ("WORLD_SIZE",), ("LOCAL_RANK",)),  # torchrun, and most scripts
    _Launcher("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    # SLURM_NTASKS alone is also there in a batch script that starts one process by itself.
    _Launcher("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS",), ("SLURM_LOCALID",)),
    _Launcher("NEURON_PJRT_PROCESS_INDEX", ("NEURON_PJRT_PROCESSES_NUM_DEVICES",)),
    _Launcher("NEURON_RT_NODE_ID", ("NEURON_RT_NUM_NODES",)),
    _Launcher("TPU_WORKER_ID", ("TPU_WORKER_HOSTNAMES",)),
)
_LISTS = ("NEURON_PJRT_PROCESSES_NUM_DEVICES", "TPU_WORKER_HOSTNAMES")
"""Variables that list processes or hosts, by commas."""


def identity() -> Identity:
    """The identity of this thread's device; the runtime of torch_xla must have begun.

    Under SPMD, and where a process has several devices without being a rank for each, torch_xla
    numbers processes. Where it knows of one process only, the launcher is asked: processes that
    were started side by side are the ranks of one job to the program, if not to torch_xla.
    """
    import torch_xla.runtime as xr

    world, processes = int(xr.world_size()), int(xr.process_count())
    is_spmd: Callable[[], bool] = xr.is_spmd
    if processes > 1 and is_spmd():
        return Identity(int(xr.process_index()), processes, 0, "torch_xla")
    if world > 1:
        return Identity(int(xr.global_ordinal()), world, int(xr.local_ordinal()), "torch_xla")
    return from_environment(os.environ) or Identity(int(xr.global_ordinal()), world, 0, "")


def from_environment(env: Mapping[str, str]) -> Identity | None:
    """What the launcher's variables say; None where there are none, or a job of one process."""
    for launcher in _LAUNCHERS:
        rank = _number(env, launcher.rank)
        if rank is None:
            continue
        world = next((n for name in launcher.world if (n := _number(env, name))), 0)
        local = next((n for name in launcher.local if (n := _number(env, name))), 0)
        if world > rank:
            return Identity(rank, world, local, launcher.rank) if world > 1 else None
        if rank > 0:
            return Identity(rank, 0, local, launcher.rank)
    return None


def _number(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "").strip()
    if name in _LISTS:
        return len(text.split(",")) if text else None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
