"""Writes a run of 200 graphs, 2,000 steps and 64 ranks, made of real committed modules.

::

    python benchmarks/make_large_run.py large-run
    python benchmarks/make_large_run.py large-run --graphs 40 --steps 300 --ranks 8

Two committed runs recompile since a size, or an index, changes from step to step. Between their
modules a few numbers differ, each a linear function of that size: a line through two of the
modules, checked against a third, gives the module of every other size. The ranks compile the same
graphs in the same steps, but for one that takes its sizes in another order, as a rank does that
reads other data.
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from xlagraph.run.reader import read_run  # noqa: E402
from xlagraph.run.records import GraphRecord, ProcessRecord, SyncRecord  # noqa: E402
from xlagraph.run.writer import RunWriter  # noqa: E402
from xlagraph.runs.explain import graph_order  # noqa: E402

if TYPE_CHECKING:
    from xlagraph.run.reader import Process, Run

PAIRS = ROOT / "fixtures" / "pairs"
SIZES, INDICES = PAIRS / "growing_sequence", PAIRS / "python_index"
FIRST_SIZE = 16
OUT_OF_TURN = 17
"""The rank that takes its sizes in another order."""
TOKEN = re.compile(r"metadata=\{[^}]*\}|[^\dm]+|m|\d+")
"""Metadata stays as it is: its numbers count what torch_xla has lowered before."""


@dataclass(frozen=True, slots=True)
class Family:
    """Modules that differ in numbers which are linear in one size."""

    tokens: tuple[str | tuple[int, int], ...]
    """Text, or the slope of a number and what is added."""
    sync: SyncRecord
    record: GraphRecord

    def text(self, size: int) -> str:
        """The module for a size."""
        return "".join(t if isinstance(t, str) else str(t[0] * size + t[1]) for t in self.tokens)


def family(run: Run, letters: tuple[int, int, int], sizes: tuple[int, int, int]) -> Family:
    """Learns from three real modules of a run how their numbers follow from a size."""
    process = run.processes[0]
    records = [record for _, record, _ in graph_order(run)]
    texts = [TOKEN.findall(run.graph_text(records[k].digest)) for k in letters]
    record = records[letters[0]]
    sync = process.sync_at(record.sync)
    assert sync is not None
    return Family(tuple(_token(*three, sizes) for three in zip(*texts, strict=True)), sync, record)


def _token(a: str, b: str, c: str, sizes: tuple[int, int, int]) -> str | tuple[int, int]:
    if a == b == c or a.startswith("metadata"):
        return a
    slope, rest = divmod(int(b) - int(a), sizes[1] - sizes[0])
    more = int(a) - slope * sizes[0]
    if rest or slope * sizes[2] + more != int(c):
        raise SystemExit(f"{a}, {b}, {c} do not follow from the sizes {sizes}")
    return slope, more


def sizes_of(run: Run, letters: tuple[int, int, int], parameter: str) -> tuple[int, int, int]:
    """The size that a parameter, or a slice, has in three modules."""
    records = [record for _, record, _ in graph_order(run)]
    found = [re.search(parameter, run.graph_text(records[k].digest)) for k in letters]
    a, b, c = (int(match[1]) for match in found if match)
    return a, b, c


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=False))
@click.option("--graphs", default=200, show_default=True)
@click.option("--steps", default=2000, show_default=True)
@click.option("--ranks", default=64, show_default=True)
def main(folder: Path, graphs: int, steps: int, ranks: int) -> None:
    """Writes the run into a new folder."""
    if folder.exists():
        raise click.UsageError(f"{folder} is there already")
    write_large_run(folder, graphs, steps, ranks)
    click.echo(f"{folder}: {graphs} graphs, {steps} steps, {ranks} ranks")


def write_large_run(folder: Path, graphs: int, steps: int, ranks: int) -> None:
    """Nine in ten graphs are sizes of an input, the others places of a slice."""
    letters = (1, 2, 3)
    run = read_run(SIZES)
    sized = family(run, letters, sizes_of(run, letters, r"f32\[2,(\d+),16\]\{2,1,0\} parameter"))
    run_of_indices = read_run(INDICES)
    slices = sizes_of(run_of_indices, letters, r"slice=\{\[(\d+):")
    indexed = family(run_of_indices, letters, slices)
    many = graphs * 9 // 10
    variants = [(sized, FIRST_SIZE + k) for k in range(many)]
    variants += [(indexed, k) for k in range(graphs - many)]
    texts = [one.text(size).encode() for one, size in variants]
    process = run.processes[0]
    for rank in range(ranks):
        order = _order(graphs, steps, seed=1 if rank == OUT_OF_TURN else 0)
        _write_rank(folder, process, rank, ranks, [variants[k][0] for k in order], order, texts)


def _order(graphs: int, steps: int, seed: int) -> list[int]:
    """The graph of each step: every one at least once, new ones ever more rarely, some often."""
    choose = random.Random(seed)
    first = list(range(graphs))
    choose.shuffle(first)
    begins = sorted(choose.sample(range(1, steps), graphs - 1), key=lambda step: step)
    begins = [0, *(round(step**1.3 / steps**0.3) for step in begins)]
    order, seen = [], 0
    for step in range(steps):
        if seen < graphs and step >= begins[seen]:
            order.append(first[seen])
            seen += 1
        else:
            order.append(first[int(seen * choose.random() ** 2)])
    return order + first[seen:]


def _write_rank(
    folder: Path,
    process: Process,
    rank: int,
    ranks: int,
    families: list[Family],
    order: list[int],
    texts: list[bytes],
) -> None:
    record: ProcessRecord = replace(
        process.record, rank=rank, world_size=ranks, pid=1000 + rank, argv=("train.py",)
    )
    writer = RunWriter(folder, record, 1 << 32)
    noise = random.Random(rank)
    compiled: set[int] = set()
    for step, (graph, one) in enumerate(zip(order, families, strict=True)):
        digest = writer.store_graph(texts[graph])
        is_new = graph not in compiled
        compiled.add(graph)
        seconds = noise.uniform(2.0, 3.0) if is_new else noise.uniform(0.004, 0.006)
        writer.write(
            replace(
                one.sync,
                index=step,
                step=step,
                rank=rank,
                time=1000.0 + step + rank / 1000,
                seconds=seconds,
                outcome="compile" if is_new else "hit",
                compile_seconds=seconds if is_new else 0.0,
                graphs=(digest,),
                fingerprint=(graph,),
                live_tensors=(),
            )
        )
        if is_new:
            writer.write(replace(one.record, digest=digest, sync=step, bytes=len(texts[graph])))
    writer.close()


if __name__ == "__main__":
    main()
