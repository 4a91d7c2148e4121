"""Blocks of a model that some steps leave out: LayerDrop, stochastic depth, an expert by turns.

Each graph trains another subset of the same parameters, and subsets come and go. What else differs
between such graphs (which state there is, which numbers are equal, how many gradients are joined)
comes of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import count, join, say
from xlagraph.rules.added_input import ADDED_INPUT
from xlagraph.runs.kinds import SKIPPED_BLOCK
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.spent import together
from xlagraph.tensors import Role, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.message import SourceLine
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode

    Names = frozenset[Tensor]

SHOWN = 4


class Weights(NamedTuple):
    """The parameters of the model that a graph takes in, and those that it also gives out anew."""

    read: Names
    trained: Names


class Skipped(NamedTuple):
    """Graphs of one place that train other subsets of the parameters, back and forth."""

    digests: frozenset[str]
    """Those that differ in it from what they were compared with, or in what comes of it."""
    blocks: tuple[str, ...]
    """Paths of the modules that some of them leave out."""


def skipped_blocks(
    graphs: Sequence[CapturedGraph],
    nodes: Sequence[GraphNode],
    followed: Mapping[str, Iterable[str]],
) -> list[Skipped]:
    """The places of a program whose graphs leave out other blocks in turn.

    Args:
        graphs: of the run.
        nodes: the same graphs, explained.
        followed: by digest, which graphs ran in the next turn of its place.
    """
    weights = _weights(graphs)
    places: defaultdict[tuple[object, ...], list[GraphNode]] = defaultdict(list)
    for node in nodes:
        if weights[node.digest].trained and not node.by_design:
            places[node.call_site, node.sync_kind, node.rank].append(node)
    found = (_at_one_place(members, weights, followed) for members in places.values())
    return [one for one in found if one]


def _weights(graphs: Iterable[CapturedGraph]) -> dict[str, Weights]:
    """By digest; equal sets are one object, so that comparing them costs nothing."""
    known: dict[Weights, Weights] = {}
    found = {}
    for graph in graphs:
        context = graph.context()
        read = _parameters(context.parameters.values())
        one = Weights(read, read & _parameters(context.outputs.values()))
        found[graph.record.digest] = known.setdefault(one, one)
    return found


def _parameters(tensors: Iterable[Tensor]) -> Names:
    return frozenset(t for t in tensors if t.role is Role.PARAMETER)


def _at_one_place(
    nodes: Sequence[GraphNode],
    weights: Mapping[str, Weights],
    followed: Mapping[str, Iterable[str]],
) -> Skipped | None:
    digests = {node.digest for node in nodes}
    turns = {(weights[x], weights[y]) for x in digests for y in followed.get(x, ()) if y in digests}
    gone = frozenset[Tensor]().union(*(x.trained - y.read for x, y in turns if x is not y))
    come = frozenset[Tensor]().union(*(y.trained - x.read for x, y in turns if x is not y))
    changing = gone & come
    if not changing:
        return None
    members = [
        node
        for node in nodes
        if node.explanation
        and node.explanation.causes
        and not (node.warm_up or node.begins_reading or node.meant)
        and (
            weights[node.digest].read != weights[node.nearest].read
            or node.explanation.causes[0].kind.id in SKIPPED_BLOCK.entails
        )
    ]
    reads = list(dict.fromkeys(weights[digest].read for digest in sorted(digests)))
    modules = _modules(changing, reads)
    return Skipped(frozenset(n.digest for n in members), modules) if members else None


def _modules(changing: Names, reads: Sequence[Names]) -> tuple[str, ...]:
    """Paths of the modules that hold these parameters, and none of another choice; largest first.

    A choice: which graphs take a parameter in.
    """
    choices: defaultdict[tuple[bool, ...], list[str]] = defaultdict(list)
    for tensor in frozenset[Tensor]().union(*reads):
        choice = tuple(tensor in read for read in reads) if tensor in changing else ()
        choices[choice].append(tensor.path)
    owners: defaultdict[str, set[tuple[bool, ...]]] = defaultdict(set)
    for choice, paths in choices.items():
        for path in paths:
            for owner in _owners(path):
                owners[owner].add(choice)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for choice in filter(None, choices):
        for path in choices[choice]:
            found[next((o for o in _owners(path) if owners[o] == {choice}), path)].append(path)
    largest = sorted(found.values(), key=lambda paths: (-len(paths), min(paths)))
    return tuple(map(_common, largest))


def _common(paths: Sequence[str]) -> str:
    """The innermost module that all of these parameters lie in; of one parameter its own path."""
    if len(paths) == 1:
        return paths[0]
    first, last = min(paths).split("."), max(paths).split(".")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return ".".join([name for name, _ in same])


def _owners(path: str) -> list[str]:
    """The modules that a parameter lies in, the outermost first."""
    names = path.split(".")
    return [".".join(names[:k]) for k in range(1, len(names))]


def block_groups(skipped: Iterable[Skipped], nodes: Sequence[GraphNode]) -> tuple[CauseGroup, ...]:
    """One group for each place whose graphs leave out blocks."""
    return tuple(
        _group(one, [node for node in nodes if node.digest in one.digests]) for one in skipped
    )


def _group(skipped: Skipped, members: Sequence[GraphNode]) -> CauseGroup:
    place = _place(members)
    caller = _caller(place)
    blocks = join((Tensor("", path) for path in skipped.blocks), SHOWN)
    number = len(skipped.blocks)
    return CauseGroup(
        kind=SKIPPED_BLOCK,
        title=say(
            f"{count(number, 'block')} of the model (",
            blocks,
            f") {'takes' if number == 1 else 'take'} part in some steps only",
            at((place.line,) if place.line else ()),
            *((", called at ", caller) if caller else ()),
            f": {count(len(members), 'graph')} of another choice of them than the graphs before",
        ),
        cause=None,
        further=(),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=False,
        proved=False,
        place=place,
    )


def _caller(place: Place) -> SourceLine | None:
    """The line of the program, in another function, from which the block's own line was called."""
    own = [frame for frame in place.stack if not frame.is_library]
    line = place.line.forward._replace(called=None) if place.line else None
    after = own[own.index(line) + 1 :] if line in own else []
    return next((frame for frame in after if not frame.function.startswith("<")), None)


def _place(members: Sequence[GraphNode]) -> Place:
    """Where a block is called, as far as an explanation cites what is computed with it."""
    causes = (c for node in members for c in (node.explanation.causes if node.explanation else ()))
    found = (cause.place for cause in causes if cause.kind is ADDED_INPUT and cause.place.line)
    return replace(next(found, Place(members[0].call_site)), tensors=())
