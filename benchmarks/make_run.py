"""Makes a run folder of many large graphs: real modules of 34,000 instructions, each changed.

Needs ``fixtures/big`` (`make_big.py`). Each graph is the FSDP step with 64 blocks and one to three
of the known edits of `mutate.py` (a constant, a size, a bucket, a piece of graph, ...), so that no
two are equal and the changes are of the kinds that programs make::

    python benchmarks/make_run.py /tmp/run --graphs 500

About a second a graph on each core; one process's records, with the names of its parameters.
"""

from __future__ import annotations

import argparse
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import zstandard
from mutate import EDITS, Edited

from xlagraph.graph import Module
from xlagraph.hlo import read_module
from xlagraph.hlo.printer import LONG, print_module
from xlagraph.run.digest import digest_graph
from xlagraph.run.records import (
    FORMAT_VERSION,
    Frame,
    GraphRecord,
    ParameterTensor,
    ProcessRecord,
    SyncRecord,
)
from xlagraph.run.writer import GRAPH_SUFFIX, GRAPHS, RunWriter
from xlagraph.tensors import Role, Tensor

BIG = Path(__file__).resolve().parents[1] / "fixtures" / "big"
SITE = (Frame("/home/user/train.py", 41, "train"),)
COMPILE_SECONDS = 40.0
Made = tuple[str, str, int, tuple[int, ...]]
"""Digest, the module's name, bytes of text, and for each parameter its number in the original."""


@cache
def original() -> Module:
    """The step that is edited."""
    return read_module((BIG / "fsdp64_1.hlo").read_text(), "fsdp64_1.hlo")


def make(folder: str, number: int) -> Made:
    """Stores graph `number`; the first is the original."""
    module, order = original(), tuple(range(len(original().entry_computation.parameters)))
    if number:
        module, order = edited(module, number)
    text = print_module(module, LONG).encode()
    digest = digest_graph(text)
    packed = zstandard.ZstdCompressor(level=3).compress(text)
    (Path(folder) / GRAPHS / (digest + GRAPH_SUFFIX)).write_bytes(packed)
    return digest, module.name, len(text), order


def edited(module: Module, seed: int) -> tuple[Module, tuple[int, ...]]:
    """The module with a few edits, and the original numbers of its parameters."""
    chance = random.Random(seed)
    change = Edited(module)
    made = 0
    while made < 1 + seed % 3:
        made += bool(EDITS[chance.choice(sorted(EDITS))][0](change, chance))
    built, new = change.build(chance)
    old = {new[p]: n for n, p in enumerate(module.entry_computation.parameters) if p in new}
    return built, tuple(old.get(p, -1) for p in built.entry_computation.parameters)


def write(folder: Path, graphs: int, jobs: int) -> None:
    """Writes the run folder."""
    process = ProcessRecord(
        format=FORMAT_VERSION,
        rank=0,
        world_size=1,
        host="bench",
        pid=1,
        started=0.0,
        argv=("/home/user/train.py",),
        level=1,
        versions=(("torch_xla", "2.9.0"),),
    )
    writer = RunWriter(folder, process, max_bytes=10**12)
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(make, [str(folder)] * graphs, range(graphs))
        for index, made in enumerate(found):
            record(writer, index, made)
            print(f"\r{index + 1} of {graphs} graphs", end="", file=sys.stderr, flush=True)
    writer.close()
    print(file=sys.stderr)


def record(writer: RunWriter, index: int, made: Made) -> None:
    """Writes the sync that compiled a graph, and the graph's record."""
    digest, name, size, order = made
    writer.write(
        SyncRecord(
            index=index,
            step=index,
            rank=0,
            time=60.0 * index,
            seconds=50.0,
            kind="step",
            entry="sync",
            outcome="compile",
            compile_seconds=COMPILE_SECONDS,
            graphs=(digest,),
            graph_is_inferred=False,
            fingerprint=(30_000 + index,),
            call_site=SITE,
            live_tensors=(),
            buckets=(),
        )
    )
    parameters = tuple(
        ParameterTensor(k, Tensor(f"blocks.{n // 20}", f"parameter{n}", Role.PARAMETER))
        for k, n in enumerate(order)
        if n >= 0
    )
    writer.write(GraphRecord(digest, index, name, size, (), parameters, ()))


def main() -> None:
    """Reads the arguments and makes the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.graphs, arguments.jobs)


if __name__ == "__main__":
    main()
