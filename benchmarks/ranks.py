"""What comparing ranks costs: processor time and peak memory for jobs of many ranks and steps.

    python benchmarks/ranks.py

Each module has 100 all-reduces over all ranks. In the first job of a row one rank runs them in
another order in the last step; in the second one rank runs another module with the same
collectives in every step, in an order that XLA chooses.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial

from xlagraph.collectives.groups import Grid, Numbering
from xlagraph.collectives.program import Collective, Program
from xlagraph.ranks.divergence import differences
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Executed, Plan

COLLECTIVES = 100
JOBS = ((8, 1_000), (64, 10_000), (2_048, 1_000))
ODD = 3


def main() -> None:
    """Prints a row for each job."""
    print("| ranks | steps | matched | steps aligned | other module in every step | peak memory |")
    print("|---:|---:|---:|---:|---:|---:|")
    for ranks, steps in JOBS:
        items = tuple(_collective(k) for k in range(COLLECTIVES))
        programs = {
            "usual": Program(items, Grid(ranks, 1), ordered=True, partitioned_later=False),
            "turned": Program(items[::-1], Grid(ranks, 1), ordered=True, partitioned_later=False),
            "free": Program(items, Grid(ranks, 1), ordered=False, partitioned_later=False),
        }
        usual = ["usual"] * steps
        turned = _plans(ranks, usual, [*usual[1:], "turned"])
        free = _plans(ranks, usual, ["free"] * steps)
        matched = _seconds(partial(match, turned, programs, ranks))
        aligned = _seconds(partial(differences, turned))
        other = _seconds(partial(match, free, programs, ranks))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"| {ranks:,} | {steps:,} | {matched:.2f} s | {aligned:.2f} s | {other:.2f} s | "
            f"{peak} MB |"
        )


def _collective(number: int) -> Collective:
    return Collective(
        opcode="all-reduce",
        buffers=(("f32", number + 4),),
        reduction="add",
        groups=(),
        counted=Numbering.REPLICAS,
        pairs=(),
        channel="",
        instruction=number,
        is_async=False,
        removable=False,
    )


def _plans(ranks: int, usual: list[str], odd: list[str]) -> list[Plan]:
    rows = [
        tuple(Executed(step, digest, ends_step=True) for step, digest in enumerate(row))
        for row in (usual, odd)
    ]
    return [Plan(rank, rows[rank == ODD], ended=True) for rank in range(ranks)]


def _seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


if __name__ == "__main__":
    main()
