"""What worker processes do for a run: sketch a graph, explain a pair.

They read the graphs themselves, and give back what a file of the cache holds: kilobytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.explain.modules import explain_sides
from xlagraph.hlo import read_stored
from xlagraph.run.reader import GraphStore
from xlagraph.runs.graphs.sketch import sketch_of
from xlagraph.runs.pairs.cache import Cache, packed
from xlagraph.runs.pairs.outcome import outcome_of

if TYPE_CHECKING:
    from xlagraph.cause.model import Context, Explanation
    from xlagraph.graph import Module

MIN_INSTRUCTIONS = 5_000
"""Of a graph, or of a pair together: what is smaller is read sooner than its file in the cache."""


class GraphPlace(NamedTuple):
    """A graph in a run, and what it is called."""

    address: str
    digest: str
    letter: str
    cached: bool
    """Whether what is found out about it is kept beside the run."""


class SketchTask(NamedTuple):
    """A graph to be sketched."""

    graph: GraphPlace
    has_ranks: bool
    """The run has several, so that collectives are asked for."""

    @property
    def key(self) -> str:
        """Names the sketch in the cache."""
        return f"sketch-{'ranks-' if self.has_ranks else ''}{self.graph.digest}"


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One graph of a pair."""

    graph: GraphPlace
    context: Context


class PairTask(NamedTuple):
    """Two graphs to be explained."""

    a: Side
    b: Side
    key: str
    """Names the outcome in the cache."""


class _Modules:
    """The modules read last: the next pair mostly has one of them."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[tuple[str, str], Module] = OrderedDict()

    def read(self, graph: GraphPlace) -> Module:
        """The module, read unless it is kept."""
        key = graph.address, graph.digest
        module = self._kept.pop(key, None)
        if module is None:
            while len(self._kept) >= self._room:
                self._kept.popitem(last=False)
            stored = GraphStore(graph.address).read(graph.digest)
            module = read_stored(*stored, f"{graph.address}:{graph.letter}")
        self._kept[key] = module
        return module

    def clear(self) -> None:
        """Forgets all."""
        self._kept.clear()


modules = _Modules(2)


def sketch(task: SketchTask) -> bytes:
    """The sketch of a graph, as the cache holds it.

    Raises:
        InputError: it is not readable HLO.
        RunError: it is damaged.
    """
    module = modules.read(task.graph)
    return kept(task.graph, task.key, sketch_of(module, has_ranks=task.has_ranks), len(module))


def kept(graph: GraphPlace, key: str, value: object, instructions: int) -> bytes:
    """A value as the cache holds it, put there if it took that many instructions to find."""
    data = packed(key, value)
    Cache(graph.address, graph.cached and instructions >= MIN_INSTRUCTIONS).write(key, data)
    return data


def explain_pair(pair: PairTask) -> bytes:
    """What the explanation of a pair comes to, as the cache holds it.

    Raises:
        InputError: a module is not readable HLO.
        RunError: a module is damaged.
    """
    explanation = explain_fully(pair.a, pair.b)
    size = len(explanation.diff.a) + len(explanation.diff.b)
    outcome = outcome_of(explanation, pair.a.context, pair.b.context)
    return kept(pair.b.graph, pair.key, outcome, size)


def explain_fully(a: Side, b: Side) -> Explanation:
    """The explanation with both modules and what became of each instruction; not kept anywhere.

    Raises:
        InputError, RunError: as `explain_pair`.
    """
    return explain_sides(modules.read(a.graph), modules.read(b.graph), a.context, b.context)
