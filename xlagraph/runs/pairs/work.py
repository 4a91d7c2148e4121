"""The work of explaining a run, shared out: sketches of graphs, explanations of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from xlagraph.runs.graphs.captured import CapturedGraph
from xlagraph.runs.graphs.sketch import Shared, Sketch
from xlagraph.runs.pairs.cache import Cache, unpacked
from xlagraph.runs.pairs.tasks import GraphPlace, SketchTask, explain_pair, sketch
from xlagraph.workers.crew import Crew

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord
    from xlagraph.runs.compare import Pair
    from xlagraph.runs.pairs.explained import Pairs
    from xlagraph.runs.pairs.outcome import Outcome

Found = TypeVar("Found")
Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many are done, and how many there are."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody sees."""


@dataclass(frozen=True, slots=True)
class Means:
    """How a run is explained; the explanation is the same by any means."""

    crew: Crew = field(default_factory=Crew)
    """Who does the work."""
    cached: bool = False
    """Whether what was worked out is kept in the run folder, and taken from there."""
    progress: Progress = silent


@dataclass(frozen=True, slots=True)
class Work(Generic[Found]):
    """Things of one sort that are worked out by whoever there is, each under its key."""

    what: str
    """Said while it is done."""
    function: Callable[[Any], bytes]
    """Takes a task, gives back what the cache holds."""
    task: Callable[[str], Any]
    """Makes the task of a key; not before it is done, for tasks may be large."""
    size: Callable[[str], int]
    """Bytes of HLO text that a task has to read."""
    read: Callable[[str, bytes], Found | None]
    """What the cache holds, as a value; None if it is damaged."""

    def done(self, address: str, keys: Sequence[str], means: Means) -> Iterator[tuple[str, Found]]:
        """What each key names, in any order: from the cache of a run, or worked out now."""
        missing = dict.fromkeys(keys)
        cache = Cache(address, means.cached)
        means.crew.afterwards(cache.tidy)
        for key, data in cache.read_all(list(missing)):
            found = self.read(key, data)
            if found is not None:
                del missing[key]
                yield key, found
        left = list(missing)
        size = sum(map(self.size, left))
        results = means.crew.results(self.function, map(self.task, left), size)
        for number, (n, data) in enumerate(results, 1):
            found = self.read(left[n], data)
            assert found is not None
            yield left[n], found
            means.progress(self.what, number, len(left))


def captured_graphs(
    run: Run, order: Sequence[tuple[str, GraphRecord, Process]], means: Means
) -> list[CapturedGraph]:
    """Every graph with its sketch: from the cache, or read now.

    `order`: letter, record and process of each.
    """
    has_ranks = len({sync.rank for process in run.processes for sync in process.syncs}) > 1
    tasks: dict[str, SketchTask] = {}
    bytes_of: dict[str, int] = {}
    for letter, record, _ in order:
        graph = GraphPlace(run.address, record.digest, letter, means.cached)
        task = SketchTask(graph, has_ranks)
        tasks[task.key], bytes_of[task.key] = task, record.bytes
    shared = Shared()

    def read(key: str, data: bytes) -> Sketch | None:
        found = unpacked(data, key, Sketch)
        return shared.sketch(found) if found else None

    work = Work("reading graphs", sketch, tasks.__getitem__, bytes_of.__getitem__, read)
    sketches = dict(work.done(run.address, list(tasks), means))
    return [
        CapturedGraph(letter, record, process, process.sync_at(record.sync), sketches[key])
        for key, (letter, record, process) in zip(tasks, order, strict=True)
    ]


def outcomes(pairs: Pairs, wanted: Collection[Pair], means: Means) -> dict[Pair, Outcome]:
    """What came of comparing each pair, in short; what is known already is not asked again."""
    keys = {pairs.key(pair): pair for pair in wanted if pair not in pairs}
    work = Work(
        "explaining differences",
        explain_pair,
        lambda key: pairs.task(keys[key]),
        lambda key: pairs.graphs[keys[key][1]].record.bytes,
        lambda key, data: pairs.keep(keys[key], data),
    )
    found = {keys[key]: outcome for key, outcome in work.done(pairs.address, list(keys), means)}
    return {pair: found.get(pair) or pairs.outcome(pair).in_short() for pair in wanted}
