"""Graphs that differ in what a condition in Python decides in each turn of a loop within the step.

``for t in range(n): h = cell(x[t], h); if dones[t]: h = zeros``: every pattern of turns in which it
holds is a graph of its own. One of them shows the line below the condition; in others the pieces of
the turns pair as they may, and look like operations in another order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.message import Code, count, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.runs.causes.drawn import VALUES, frames_in_step, own_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode

MANY = 3
"""So many graphs at least that one condition may make."""
FIX = say(
    "Python decides in each turn of the loop what is computed, and every pattern of turns is a "
    "graph of its own. Send the conditions of all turns as one tensor, compute both values, and "
    "let the device pick: ",
    Code("torch.where(flags[t], one, other)"),
    ". Or multiply by 0 or 1.",
)


@dataclass(frozen=True, slots=True)
class AsDecided:
    """Says the cause of a single graph as what a condition decides over the run."""

    branch: SourceLine
    """The line of the condition."""
    loop: SourceLine
    """Whose turns it decides about, in the same function."""

    def may_make(self, cause: Cause) -> bool:
        """Whether a cause is a piece of what the loop computes, in its backward pass perhaps."""
        line = cause.place.line
        frames = own_frames(cause) or ([line] if line else [])
        return cause.kind in VALUES and any(
            (one.file, one.function) == (self.loop.file, self.loop.function)
            and one.line > self.loop.line
            for one in frames
        )

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the condition and its loop."""
        return replace(
            cause,
            kind=REPLACED_SUBGRAPH,
            title=say(
                "a condition in Python",
                at((self.branch,)),
                " decides in each turn of the loop",
                at((self.loop,)),
                f" what is computed: {count(len(members), 'graph')}",
            ),
            fix=FIX,
            short=say("a condition in Python decides what each turn of a loop computes"),
            short_fix=say("Send the conditions as one tensor, and pick with torch.where."),
            place=replace(cause.place, line=self.branch, stack=(self.branch,), source=()),
        )


def decided(
    causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText
) -> dict[str, AsDecided]:
    """Digest to what is said of graphs that differ in what a condition in a loop decides.

    Args:
        causes: graphs with their main cause, or with several that are asked in turn.
        program: what is known of its text. Loops in which steps end do not count.
    """
    known = list(causes)
    seeds = {
        (one, node.call_site): one
        for node, cause in known
        if (one := _condition(cause, node.call_site, program))
    }
    found: defaultdict[AsDecided, dict[str, None]] = defaultdict(dict)
    for node, cause in known:
        here = (one for one, ends in seeds if ends == node.call_site and one.may_make(cause))
        if one := next(here, None):
            found[one][node.digest] = None
    return {d: one for one, digests in found.items() if len(digests) >= MANY for d in digests}


def _condition(cause: Cause, ends: SourceLine | None, program: ProgramText) -> AsDecided | None:
    """The condition right around a cause's line, in a loop within the step; None without one."""
    frames = frames_in_step(own_frames(cause), ends)[:1] if cause.kind in VALUES else ()
    around = enclosing(program.lines, frames)
    if around is None or around.branch is None:
        return None
    is_of_steps = (around.loop.file, around.loop.line) in program.step_loops
    return None if is_of_steps else AsDecided(around.branch, around.loop)
