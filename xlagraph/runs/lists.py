"""Lists of tensors that every step uses whole and adds to: an optimizer's history, a queue.

The graph of each step takes in more tensors than that of the step before, the same number of the
same shapes each time. Values that are read on the way there cut such a step in
parts, each of which is longer than its like in the step before; all of that is one reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import at
from xlagraph.message import Code, count, join, say
from xlagraph.runs.kinds import GROWING_GRAPH
from xlagraph.runs.sketch import without_layout
from xlagraph.runs.turns import call_place
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import Message
    from xlagraph.run.records import Frame, SyncRecord
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.turns import CallPlace, Turns
    from xlagraph.tensors import Tensor

MANY = 3
"""So many times in a row the same tensors more are a list that grows."""
LIST_FIX = say(
    "Every length of the list is a graph of its own. Bound it, so that it is full after a few "
    "steps (history_size of L-BFGS, maxlen of a deque); or keep one tensor of a fixed size that is "
    "updated in place, with a mask for what is not filled yet."
)
LIST_SHORT = say("Bound the list, so that it is full after few steps.")
_PLACE = re.compile(r"(.+)\[\d+\]")
"""``old_dirs[3]``: a key of an optimizer's state, and a place in the list there."""


@dataclass(frozen=True, slots=True, eq=False)
class LongerList:
    """Graphs of one place whose steps take in more and more tensors."""

    graphs: frozenset[str]
    """Digests of the graphs of these steps, those of values read on the way there included."""
    is_cut: bool
    """Values are read on the way: its steps have several graphs each."""
    first: int
    last: int
    """The steps."""
    more: Counter[str]
    """Shapes of what each takes in beyond the one before."""
    kept: tuple[Tensor, ...]
    """The lists of an optimizer that hold it, each as a tensor whose key names the list."""


def longer_lists(graphs: Sequence[CapturedGraph], turns: Turns) -> list[LongerList]:
    """The lists that grow from step to step of a run."""
    places: defaultdict[CallPlace, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.sync and graph.sync.ends_step:
            places[call_place(graph.process, graph.sync)].append(graph)
    return [
        _longer_list(chain, graphs)
        for members in places.values()
        for chain in _chains(members, turns)
    ]


def _chains(members: Sequence[CapturedGraph], turns: Turns) -> Iterator[list[CapturedGraph]]:
    """Graphs of one place, each compiled in the turn after the one before, that take in more.

    The first step may make what the next takes in: it gives back less then.
    """
    chain: list[CapturedGraph] = []
    for graph in sorted(members, key=lambda one: one.sync.index if one.sync else 0):
        last = chain[-1] if chain else None
        is_next = last and (last.record.digest, graph.record.digest) in turns.in_a_row
        if last and not (is_next and _more(last, graph)):
            if _is_even(chain):
                yield chain
            chain = [last] if is_next and _begins(last, graph) else []
        chain.append(graph)
    if _is_even(chain):
        yield chain


def _begins(before: CapturedGraph, now: CapturedGraph) -> bool:
    """Whether one takes in all that the other does, and more."""
    return _inputs(before) < _inputs(now)


def _is_even(chain: Sequence[CapturedGraph]) -> bool:
    """Whether the same comes in more each time, but for the first steps of all."""
    more = [_more(before, now) for before, now in pairwise(chain)]
    return len(more) >= MANY and all(one == more[-1] for one in more[-MANY:])


def _more(before: CapturedGraph, now: CapturedGraph) -> Counter[str]:
    """Shapes of what one graph takes in beyond the other; nothing where that has more too.

    Nor where it gives back as much more: parameters that are trained as well.
    """
    old, new = _inputs(before), _inputs(now)
    more = new - old
    is_other = old - new or more & (_outputs(now) - _outputs(before))
    return Counter() if is_other else more


def _inputs(graph: CapturedGraph) -> Counter[str]:
    return Counter(_arrays(shape for _, shape in graph.sketch.interface.inputs))


def _outputs(graph: CapturedGraph) -> Counter[str]:
    return Counter(_arrays(shape for shape, _ in graph.sketch.interface.outputs))


def _arrays(shapes: Iterable[str]) -> Iterator[str]:
    """Shapes without their layouts, and without those of numbers."""
    return (bare for bare in map(without_layout, shapes) if not bare.endswith("[]"))


def _longer_list(chain: Sequence[CapturedGraph], graphs: Sequence[CapturedGraph]) -> LongerList:
    first, last = chain[0], chain[-1]
    at_end = {graph.record.digest for graph in chain}
    members = frozenset(
        graph.record.digest
        for graph in graphs
        if graph.process is first.process
        and first.step <= graph.step <= last.step
        and (graph.record.digest in at_end or _is_on_the_way(graph.sync, first.sync))
    )
    more = _more(chain[-2], last)
    is_cut = len(members) > len(chain)
    kept = tuple(sorted(_kept(chain), key=lambda tensor: tensor.key))
    return LongerList(members, is_cut, first.step, last.step, more, kept)


def _is_on_the_way(sync: SyncRecord | None, end: SyncRecord | None) -> bool:
    """Whether a value was read in the function in which the step ends."""
    if sync is None or end is None or sync.kind != "value":
        return False
    return _function(sync.call_site) == _function(end.call_site)


def _function(site: Sequence[Frame]) -> tuple[object, ...]:
    """A call site's function, and how that was called."""
    return (site[0].file, site[0].function, tuple(site[1:])) if site else ()


def _kept(chain: Sequence[CapturedGraph]) -> Iterator[Tensor]:
    """The lists in an optimizer's state of which a later graph takes in more places."""
    lists = [_state_lists(graph) for graph in (chain[-2], chain[-1])]
    for tensor, number in lists[1].items():
        if number > lists[0][tensor] > 0:
            yield tensor


def _state_lists(graph: CapturedGraph) -> Counter[Tensor]:
    """How many places of each list in an optimizer's state it takes in."""
    found: Counter[Tensor] = Counter()
    for tensor in graph.context().parameters.values():
        place = _PLACE.fullmatch(tensor.key) if tensor.role is Role.STATE else None
        if place:
            found[replace(tensor, key=place[1])] += 1
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AsList:
    """Says the cause of a single graph as the list that grows over the run."""

    longer: LongerList

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause of one of these graphs, of all of them."""
        more = self.longer.more
        shapes = join((_times(shape, times) for shape, times in sorted(more.items())), 3)
        steps = f"steps {self.longer.first} to {self.longer.last}"
        number = count(more.total(), "tensor")
        evidence = Evidence(
            say(f"from step to step {number} more that the graph takes in: ", shapes)
        )
        return replace(
            cause,
            kind=GROWING_GRAPH,
            title=say(
                f"a list of tensors grows: each step takes in {number} more (",
                shapes,
                ") than the one before",
                at(cause.lines),
                f", {count(len(members), 'graph')} in {steps}",
                _kept_words(self.longer.kept),
            ),
            evidence=(evidence, *cause.evidence),
            fix=LIST_FIX,
            short=say("A list of tensors grows with every step"),
            short_fix=LIST_SHORT,
            place=replace(cause.place, tensors=()),  # those of one graph's own cause
        )


def _times(shape: str, times: int) -> Message:
    return say(f"{times} x {shape}" if times > 1 else shape)


def _kept_words(kept: Sequence[Tensor]) -> Message:
    if not kept:
        return say()
    keys = dict.fromkeys(tensor.key for tensor in kept)
    return say("; kept by ", Code(kept[0].optimizer), " as ", join(map(Code, keys)))
