"""Causes beside a far larger one that came once or twice.

A program that compiles in every step for one reason mostly has ordinary further graphs: what a log
computes now and then, a step behind an evaluation. Alone such a graph is looked into. Beside a
cause of many compiles it is listed with its line, the verdict says what it cost, and it takes
nothing from what is to be mended first.

So is what looks otherwise at the very line of that cause, in one graph of twenty; and where blocks
of a model are left out, what else its call computes in some of those steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.rules.module.header import DONORS
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.by_design.quiet import NEVER
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.model import CauseGroup, GraphNode

MANY = 6
"""Compiles of the first cause, from which on others are asked."""
SLIGHT = 0.25
"""The part of its compiles, and of its seconds, that another one has at most."""
RARE, HALF = 0.1, 0.5
"""The part of its compiles that another one has at most that may take so much of its seconds."""
FEW = 2
"""A cause with more compiles than these goes on."""
STRAY = 0.05
"""The part of the first cause's compiles that another one at its line has at most."""
AGAIN = 2
"""So often a graph ran again that comes now and then, as at the end of each epoch."""
LASTING = 12
"""So many steps without another show that a copy was taken, and no more."""


def with_slight(
    groups: Sequence[CauseGroup], nodes: Sequence[GraphNode], steps: int
) -> tuple[tuple[CauseGroup, ...], list[GraphNode]]:
    """The groups and graphs, with those meant that are slight beside the first cause.

    `groups`: ranked, problems first. `steps`: how many the run has.
    """
    problems = [group for group in groups if not group.expected]
    slight = [
        one
        for one in problems
        if _is_copied(one, nodes, steps)
        or _is_slight(one, problems[0], again=_ran_again(one, nodes))
    ]
    seldom = {digest for group in slight for digest in group.graphs}
    return (
        *(group for group in problems if group not in slight),
        *(replace(group, expected=True, meant=Meant.SELDOM) for group in slight),
        *(group for group in groups if group.expected),
    ), [
        replace(node, warm_up=True, meant=Meant.SELDOM) if node.digest in seldom else node
        for node in nodes
    ]


def _is_slight(group: CauseGroup, first: CauseGroup, *, again: bool) -> bool:
    """Whether it came once or twice beside many; `again`: each of its graphs ran again."""
    if group is first or group.kind in NEVER:
        return False
    is_short = group.spent.wall_seconds <= _part(group, first) * first.spent.wall_seconds
    return _is_at_its_line(group, first) or (
        first.compiles >= MANY
        and group.compiles <= min(FEW, SLIGHT * first.compiles)
        and (is_short or (again and group.compiles <= RARE * first.compiles))
    )


def _ran_again(group: CauseGroup, nodes: Sequence[GraphNode]) -> bool:
    own = [node for node in nodes if node.digest in group.graphs]
    return all(node.hits and node.hits + node.unnamed_hits >= AGAIN for node in own)


def _is_at_its_line(group: CauseGroup, first: CauseGroup) -> bool:
    """Whether it is most likely the first cause, seen otherwise in a few of its steps."""
    if group.place.line is None or group.place.line != first.place.line:
        return False
    is_of_blocks = first.kind is SKIPPED_BLOCK and group.kind.is_piece
    return group.compiles <= (HALF if is_of_blocks else STRAY) * first.compiles


def _part(group: CauseGroup, first: CauseGroup) -> float:
    """The part of the seconds: a whole step beside small graphs takes long, and comes but once."""
    return HALF if group.compiles <= RARE * first.compiles else SLIGHT


def _is_copied(group: CauseGroup, nodes: Sequence[GraphNode], steps: int) -> bool:
    """Whether only buffers differ that are given away, seldom: a copy of the weights shares them.

    A snapshot that is taken now and then holds them until one of the two is updated.
    """
    if group.kind is not DONORS or group.compiles > FEW:
        return False
    last = max(node.step for node in nodes if node.digest in group.graphs)
    return steps - 1 - last >= LASTING
