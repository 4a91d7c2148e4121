"""Hooks that are attached again and again: what they compute stands in the graph once more."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.kinds import Section
from xlagraph.cause.verdict import Place
from xlagraph.message import count, join, say
from xlagraph.runs.kinds import REPEATED_HOOK
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.spent import together
from xlagraph.runs.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode

MANY = 3
"""So many different numbers of calls, each larger than the one before, are a hook attached anew."""


class Attached(NamedTuple):
    """Graphs of one place that run hooks once more than those before."""

    digests: frozenset[str]
    """Those with which the number rose."""
    lines: tuple[SourceLine, ...]
    """In the hooks."""
    times: tuple[int, ...]
    """How often the hooks are attached, from graph to graph."""


def attached_again(graphs: Sequence[CapturedGraph]) -> list[Attached]:
    """The places of a run whose graphs run hooks more and more often.

    Only graphs with forward passes of one size are compared: a model that runs more turns calls its
    hooks more often as well.
    """
    places: defaultdict[object, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.sync and graph.sketch.forward:
            key = call_place(graph.process, graph.sync), graph.sketch.forward
            places[key].append(graph)
    return [one for members in places.values() for one in _at_one_place(members)]


def _at_one_place(graphs: Sequence[CapturedGraph]) -> Iterator[Attached]:
    ordered = sorted(graphs, key=lambda graph: graph.sync.index if graph.sync else 0)
    made = [dict(graph.sketch.hooks) for graph in ordered]
    found: defaultdict[tuple[int, ...], list[SourceLine]] = defaultdict(list)
    for line in dict.fromkeys(line for hooks in made for line in hooks):
        times = _times([hooks.get(line, 0) for hooks in made])
        if times:
            found[times].append(line)
    for times, lines in found.items():
        rising = (k for k, (before, after) in enumerate(pairwise(times), 1) if after > before)
        digests = frozenset(ordered[k].record.digest for k in rising)
        yield Attached(digests, tuple(sorted(lines)), tuple(sorted(set(times))))


def _times(made: Sequence[int]) -> tuple[int, ...]:
    """How often a hook is attached in each of some graphs, by the instructions that it makes there.

    Nothing if it is not attached anew: if the number falls, or is no multiple of what is added.
    """
    steps = [after - before for before, after in pairwise(made) if after != before]
    if len(steps) < MANY - 1 or min(steps) < 0:
        return ()
    one = min(steps)
    return tuple(number // one for number in made) if not any(n % one for n in made) else ()


def hook_groups(attached: Iterable[Attached], nodes: Sequence[GraphNode]) -> tuple[CauseGroup, ...]:
    """One group for the hooks of each place."""
    groups = []
    for one in attached:
        members = [node for node in nodes if node.digest in one.digests and not node.warm_up]
        if members:
            groups.append(_group(one, members))
    return tuple(groups)


def _group(attached: Attached, members: Sequence[GraphNode]) -> CauseGroup:
    times = f"{attached.times[0]} to {attached.times[-1]}"
    lines = join(attached.lines, 3)
    what = "a hook is attached" if len(attached.lines) == 1 else "hooks are attached"
    return CauseGroup(
        kind=REPEATED_HOOK,
        title=say(
            f"{what} again and again: what is computed at ",
            lines,
            f" stands {times} times in {count(len(members) + 1, 'graph')} one after the other, "
            "while the modules' own forward passes stay as they are",
        ),
        cause=None,
        further=tuple(_further(members)),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=False,
        proved=False,
        steps=tuple(sorted({node.step for node in members})),
        place=Place(attached.lines[0]),
    )


def _further(members: Sequence[GraphNode]) -> Iterator[Cause]:
    """What makes these graphs differ and comes of no hook: other inputs, each place once."""
    known = set()
    for node in members:
        for cause in node.explanation.causes if node.explanation else ():
            key = cause.kind, next(iter(cause.lines), None)
            if cause.kind.section is Section.INPUTS and key not in known and not cause.expected:
                known.add(key)
                yield cause
