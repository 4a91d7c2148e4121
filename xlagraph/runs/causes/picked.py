"""A loop within a step that runs other functions from step to step, such as drawn augmentations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.message import count, join, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode

MANY = 3
"""So many functions at least that one loop calls come and go."""
FIX = say(
    "What this loop runs is picked, or put in order, by Python, and every choice is a graph of its "
    "own. Do it on the host, before the batch is sent. Or run all of it in every step, in one "
    "order, and let the device pick: torch.where(coin, changed, x), with the coins drawn on the "
    "host and sent as one tensor."
)


@dataclass(frozen=True, slots=True)
class AsPicked:
    """Says the cause of a single graph as what a loop picks over the run."""

    loop: SourceLine
    functions: tuple[str, ...]

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the loop's line."""
        names = join((f"{name}()" for name in self.functions), 4)
        return replace(
            cause,
            kind=EXTRA_SUBGRAPH,
            title=say(
                "the loop",
                at((self.loop,)),
                " runs other functions in some steps, or in another order: ",
                names,
                f" come and go in {count(len(members), 'graph')}",
            ),
            fix=FIX,
            short=say("a loop runs other functions in some steps"),
            short_fix=say("Do it on the host, or run all in one order and pick."),
            place=replace(cause.place, line=self.loop, stack=(self.loop,), source=()),
        )


def picked(causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText) -> dict[str, AsPicked]:
    """Digest to what is said of the graphs whose pieces one loop calls, in several functions.

    Args:
        causes: graphs with their main cause, those that pieces make differ.
        program: what is known of its text. Loops in which steps end do not count.
    """
    found: defaultdict[SourceLine, dict[str, str]] = defaultdict(dict)
    for node, cause in causes:
        own = [frame for frame in cause.place.stack if not frame.is_library]
        around = enclosing(program.lines, own[1:])
        if around and (around.loop.file, around.loop.line) not in program.step_loops:
            found[around.loop][node.digest] = own[0].function
    return {
        digest: AsPicked(loop, tuple(sorted(set(functions.values()))))
        for loop, functions in found.items()
        if len(set(functions.values())) >= MANY
        for digest in functions
    }
