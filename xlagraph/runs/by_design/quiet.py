"""A run in which compiling has ended, whatever its last graphs differ in.

What a graph differs in may look like a mistake and be meant: stages each with a k of their own, two
heads in turn, a policy that acts now and then. When graphs came says more. A mistake compiles to
the end, or comes back after a pause no longer than those before; where that is not so, few graphs
are left that nobody has accounted for, and no reason has many but all places of a ring, each cost
its compile once.

An alarm stays what goes on though it compiles no more (`NEVER`), what piles up or grows, a size
between others (`early` asks for more steps), and what the run's own end hides.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.shapes.sizes import PYTHON_INDEX
from xlagraph.runs.by_design.early import FEW, NEVER_MEANT, grows, has_size
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.history import History

LASTING = 16
"""So many steps without a compile at least."""
PART = 0.35
"""The part of the training's steps, at its end, in which nothing compiled."""
LONGER = 1.15
"""So many times as long as the longest pause before it."""
SPARSE = 0.6
"""For each of its steps so many compiled until then at most."""
ALIKE = 3
"""More graphs than these with one reason are many: numbers of a warm-up that ended."""
_PADDED = re.compile(r"(\d+) before and (\d+) after")
NEVER = NEVER_MEANT - {EARLY_EXECUTION}
"""What is wrong however seldom it comes, and though it compiles no more; a value that is read cuts
a step, and that is all."""


def with_quiet(
    nodes: Sequence[GraphNode], history: History, told: Collection[str], stable: int | None
) -> list[GraphNode]:
    """The graphs, with those meant that are left of a run in which compiling has ended.

    `told`: digests of graphs that are known to be part of something that goes on.
    `stable`: the last step that compiled, None if that is the last of all.
    """
    left = [node for node in nodes if not node.warm_up]
    if not _has_ended(nodes, history, stable) or not _are_few(left):
        return list(nodes)
    if any(node.digest in told or _goes_on(node) for node in left) or grows(nodes, history.turns):
        return list(nodes)
    return [
        node if node.warm_up else replace(node, warm_up=True, meant=_how(node)) for node in nodes
    ]


def _has_ended(nodes: Sequence[GraphNode], history: History, stable: int | None) -> bool:
    """Whether the pause at the end is long beside the training and beside the pauses before."""
    if stable is None or history.began_late:
        return False
    since = history.steps - 1 - stable
    compiling = sorted({node.step for node in nodes})
    longest = max((later - one for one, later in pairwise(compiling)), default=0)
    return (
        since >= max(LASTING, PART * (history.steps - history.first_step), LONGER * longest)
        and len(compiling) <= SPARSE * since
    )


def _are_few(left: Sequence[GraphNode]) -> bool:
    """Whether few are left, and few with one reason, but for all places of one ring."""
    firsts = [one for n in left if n.explanation for one in n.explanation.causes[:1]]
    reasons = Counter((one.kind, one.place.line) for one in firsts)
    many = [reason for reason, number in reasons.items() if number > ALIKE]
    are_rings = all(
        kind is PYTHON_INDEX and _is_full_ring(c for c in firsts if c.place.line == line)
        for kind, line in many
    )
    return len(left) <= FEW + ALIKE * len(many) and are_rings


def _is_full_ring(causes: Iterable[Cause]) -> bool:
    """Whether values are written at places that follow on each other, from the first to the last.

    Then each place of a ring has been written to, as of a queue of a few batches: no more come.
    """
    found = {pair for cause in causes for pair in _PADDED.findall(str(cause.title))}
    places = sorted((int(before), int(after)) for before, after in found)
    apart = {later - one for (one, _), (later, _) in pairwise(places)}
    is_whole = bool(places) and places[0][0] == 0 and places[-1][1] == 0
    return is_whole and len(apart) == 1 and len({sum(pair) for pair in places}) == 1


def _goes_on(node: GraphNode) -> bool:
    """Whether a graph is wrong though it compiles no more, or its size may come between others.

    What a library reads where its caller cannot help it may be like nothing that ran before, as
    the first of what a model generates.
    """
    outcome = node.explanation
    if outcome is None:
        site = node.call_site
        return not (node.sync_kind == "value" and site and site.is_library)
    if outcome.same or has_size(outcome):
        return True
    return any(cause.kind in NEVER for cause in outcome.causes)


def _how(node: GraphNode) -> Meant:
    return Meant.EARLY if node.explanation and node.explanation.proved else Meant.SETTLED
