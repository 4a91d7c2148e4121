"""The work of explaining a run, shared out: sketches of graphs, explanations of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.cache import Cache
from xlagraph.runs.captured import CapturedGraph
from xlagraph.runs.sketch import Shared
from xlagraph.runs.tasks import GraphPlace, explain_pair, sketch, sketch_from, sketch_key

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord
    from xlagraph.runs.compare import Pair
    from xlagraph.runs.outcome import Outcome
    from xlagraph.runs.pairs import Pairs
    from xlagraph.runs.sketch import Sketch
    from xlagraph.workers.crew import Crew

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many are done, and how many there are."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody sees."""


@dataclass(frozen=True, slots=True)
class Means:
    """How a run is explained; the explanation is the same by any means."""

    jobs: int = 1
    """Worker processes, where there is enough to do for them."""
    scheduler: str = ""
    """Address of a Dask scheduler whose workers do it instead."""
    cached: bool = False
    """Whether what was worked out is kept in the run folder, and taken from there."""
    progress: Progress = silent


def captured_graphs(
    run: Run, order: Sequence[tuple[str, GraphRecord, Process]], crew: Crew, means: Means
) -> list[CapturedGraph]:
    """Every graph with its sketch: from the cache, or read now.

    `order`: letter, record and process of each.
    """
    keys = [sketch_key(record.digest) for _, record, _ in order]
    places_of = {key: k for k, key in enumerate(keys)}
    sketches: list[Sketch | None] = [None] * len(order)
    shared = Shared()

    def take(k: int, data: bytes) -> None:
        found = sketch_from(data, order[k][1].digest)
        sketches[k] = shared.sketch(found) if found else None

    for key, data in Cache(run.address, means.cached).read_all(keys):
        take(places_of[key], data)
    missing = [k for k, found in enumerate(sketches) if found is None]
    places = (
        GraphPlace(run.address, order[k][1].digest, order[k][0], means.cached) for k in missing
    )
    size = sum(order[k][1].bytes for k in missing)
    for done, (n, data) in enumerate(crew.results(sketch, places, size), 1):
        take(missing[n], data)
        means.progress("reading graphs", done, len(missing))
    return [
        CapturedGraph(letter, record, process, process.sync_at(record.sync), found)
        for (letter, record, process), found in zip(order, sketches, strict=True)
        if found is not None
    ]


def outcomes(
    pairs: Pairs, wanted: Collection[Pair], crew: Crew, means: Means
) -> dict[Pair, Outcome]:
    """What came of comparing each pair; the cache is asked first."""
    found: dict[Pair, Outcome] = {}

    def take(pair: Pair, data: bytes) -> None:
        outcome = pairs.keep(pair, data)
        if outcome is not None:
            found[pair] = outcome

    keys = {pairs.key(pair): pair for pair in wanted}
    for key, data in Cache(pairs.address, means.cached).read_all(list(keys)):
        take(keys[key], data)
    missing = [pair for pair in wanted if pair not in found]
    size = sum(pairs.graphs[after].record.bytes for _, after in missing)
    tasks = (pairs.task(pair) for pair in missing)
    for done, (n, data) in enumerate(crew.results(explain_pair, tasks, size), 1):
        take(missing[n], data)
        means.progress("explaining differences", done, len(missing))
    return found
