"""Graphs of one line that differ in how much they compute: growth, or a loop's other length."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import count, join, say
from xlagraph.rules.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.sizes import INPUT_SHAPE
from xlagraph.runs.kept import kept
from xlagraph.runs.kinds import GROWING_GRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.turns import Turns

MANY = 3
"""So many graphs in a row, each larger than the one before, are growth."""
EVEN = 0.1
"""How far from a whole number of turns the sizes of a loop's graphs may be, in turns."""
LOOPED = frozenset({EXTRA_SUBGRAPH})
"""What a loop of another length looks like; of pieces that are known better more is known.

Where a piece stands in place of another, as a branch in a loop picks, the loop is as long."""
LOOP_FIX = say(
    "If a Python loop or list has another length there: give it the same one in every step, or "
    "one of a few (pad the list and mask what is not used, round the number of turns up)."
)


def main_line(cause: Cause) -> SourceLine | None:
    """The first source line that a cause cites."""
    return next(iter(cause.lines), None)


def growing(nodes: Sequence[GraphNode], turns: Turns) -> dict[str, SourceLine | None]:
    """Digest to line of the graphs that grow from turn to turn of one place, at one line.

    Each but the first compiled in the turn after the one that it is compared with. None ran again
    but in this order, from the first one on (what is kept is dropped after an epoch): where an
    earlier length comes again, nothing was kept.
    """
    known = {node.digest: node for node in nodes}
    chains: dict[tuple[SourceLine | None, str], list[GraphNode]] = {}
    for node in nodes:
        cause = growing_cause(node.explanation.causes) if node.explanation else None
        if node.warm_up or cause is None:
            continue
        line = main_line(cause)
        before = known.get(node.nearest)
        if before is None or before.instructions >= node.instructions:
            continue
        is_next = (before.digest, node.digest) in turns.in_a_row
        earlier = chains.pop((line, before.digest), []) if is_next else []
        chains[line, node.digest] = [*earlier, node]
    return {
        node.digest: line
        for (line, _), chain in chains.items()
        if len(chain) >= MANY and _runs_in_order(chain, turns.followed)
        for node in chain
    }


def growing_cause(causes: Sequence[Cause]) -> Cause | None:
    """What may make a graph larger: what is computed rather than the size of an input.

    That is asked only where the first cause may grow.
    """
    found = [cause for cause in causes if cause.kind.may_grow or cause.kind.is_piece]
    if not found or found[0] is not causes[0]:
        return None
    return next((cause for cause in found if cause.kind is not INPUT_SHAPE), found[0])


def _runs_in_order(chain: Sequence[GraphNode], followed: Mapping[str, set[str]]) -> bool:
    digests = [node.digest for node in chain]
    allowed = {*pairwise(digests), *((digest, digests[0]) for digest in digests[1:])}
    return all((x, y) in allowed for x in digests for y in followed.get(x, ()) if y in set(digests))


def uneven_loops(nodes: Sequence[GraphNode]) -> dict[str, SourceLine | None]:
    """Digest to line of graphs that stand about equal pieces apart, one or several."""
    sizes = {node.digest: node.instructions for node in nodes}
    lines: defaultdict[tuple[SourceLine | None, SourceLine | None], list[GraphNode]]
    lines = defaultdict(list)
    for node in nodes:
        causes = node.explanation.causes if node.explanation else ()
        if causes and causes[0].kind in LOOPED and not node.warm_up:
            lines[node.call_site, main_line(causes[0])].append(node)
    return {
        node.digest: line
        for (_, line), members in lines.items()
        if len(members) >= MANY
        and _evenly_apart({sizes[d] for n in members for d in (n.digest, n.nearest)})
        for node in members
    }


def _evenly_apart(sizes: Iterable[int]) -> bool:
    steps = [y - x for x, y in pairwise(sorted(sizes))]
    if len(steps) < MANY:
        return False
    turns = [round(step / min(steps)) for step in steps]
    one = sum(steps) / sum(turns)
    return all(abs(step / one - k) <= EVEN for step, k in zip(steps, turns, strict=True))


def as_growth(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single step, said as what it is over the run."""
    sizes = [node.instructions for node in members]
    more = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    where_kept, evidence = kept(members)
    return replace(
        cause,
        kind=GROWING_GRAPH,
        title=say(
            "the graph grows with every step",
            at(cause.lines),
            f": {count(len(members), 'graph')}, each about {count(round(more), 'instruction')} "
            "larger than the one before",
            where_kept,
        ),
        evidence=(*cause.evidence, *evidence),
        fix=say(GROWING_GRAPH.fix),
        short=say(),
        short_fix=say(),
    )


def as_loop(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single step, said as the other length of a loop that the sizes speak of."""
    sizes = join((str(size) for size in sorted({node.instructions for node in members})), 6)
    return replace(
        cause,
        kind=EXTRA_SUBGRAPH,
        title=say(
            f"{count(len(members), 'graph')} compute the same more or less often",
            at(cause.lines),
            " (",
            sizes,
            " instructions), as when a Python loop or list has another length",
        ),
        fix=LOOP_FIX,
        short=say("A loop or a list has another length"),
        short_fix=say("Give the loop or list one length, or one of a few."),
    )
