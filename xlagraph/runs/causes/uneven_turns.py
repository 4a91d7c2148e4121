"""A loop within a step whose turns differ from step to step in many ways, for one reason."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.message import Code, count, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import PYTHON_INDEX
from xlagraph.runs.causes.drawn import own_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.runs.model import GraphNode

PIECES = frozenset({ADDED_INPUT, EARLY_EXECUTION, EXTRA_SUBGRAPH, OTHER_OPERAND, REPLACED_SUBGRAPH})
NUMBERS = frozenset({CONSTANT_VALUE, PYTHON_INDEX, SHARED_SCALAR, SPECIAL_SCALAR})
ORDERS = frozenset({REORDERED_OPERANDS, REORDERED_SUM})
SORTS = (PIECES, NUMBERS, ORDERS)
"""What graphs look like in which turns are left out, or have other numbers, or another order."""
MANY = 4
"""So many graphs at least differ at the lines of one loop, in two of these sorts or more."""
FIX = say(
    "The turns of this loop are not the same in every step: Python leaves some of them out, or "
    "gives them other numbers, and every pattern is a graph of its own. Run all turns in every "
    "step; send their numbers as one tensor, 0 for a turn that is left out, and multiply: ",
    Code("weights = torch.tensor(numbers).to(device)"),
    ". Or compute all turns at once over a dimension of their own.",
)
FOUND_FIX = say(
    "The loop goes over values that are found in the data of a step, and every set of them is a "
    "graph of its own. Go over all that can occur, in every step, so that those that are absent "
    "add 0 (a count that is divided by is clamped to 1: ",
    Code("clamp_min(1)"),
    "); or compute all at once over a dimension of their own (",
    Code("one_hot"),
    ").",
)
_FOUND = re.compile(r"\bin\b.*(?:\bunique\(|\.tolist\(|\bnonzero\(|\.item\(|\bset\()")
"""The head of a loop over what the data holds."""


@dataclass(frozen=True, slots=True)
class AsUneven:
    """Says the causes of single graphs as what their loop does over the run."""

    loop: SourceLine
    program: ProgramText = field(compare=False)

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause comes of what the loop's turns do as well."""
        return _loop(cause, self.program) == self.loop

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the loop's line."""
        which, fix, short, short_fix = self._words()
        return replace(
            cause,
            kind=EXTRA_SUBGRAPH,
            title=say(
                "the turns of the loop",
                at((self.loop,)),
                which,
                " differ from step to step, in what they compute, in numbers or in order: ",
                count(len(members), "graph"),
            ),
            fix=fix,
            short=short,
            short_fix=short_fix,
            place=replace(cause.place, line=self.loop, stack=(self.loop,), source=()),
        )

    def _words(self) -> tuple[str, Message, Message, Message]:
        head = self.program.lines.get(self.loop.file, {}).get(self.loop.line, "")
        if _FOUND.search(head):
            return (
                ", which goes over values found in the data,",
                FOUND_FIX,
                say("a loop goes over values found in the data"),
                say("Go over all values in every step, so that absent ones add 0."),
            )
        return (
            "",
            FIX,
            say("a loop's turns are left out, or have other numbers"),
            say("Run all turns in every step; send their numbers as one tensor."),
        )


def uneven_turns(
    causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText
) -> dict[str, AsUneven]:
    """Digest to what is said of the graphs that differ within one loop in several sorts of ways.

    Args:
        causes: graphs with their main cause.
        program: what is known of its text. Loops in which steps end do not count.
    """
    found: defaultdict[SourceLine, dict[str, int]] = defaultdict(dict)
    for node, cause in causes:
        sort = next((k for k, sort in enumerate(SORTS) if cause.kind in sort), None)
        loop = _loop(cause, program)
        if loop and sort is not None:
            found[loop][node.digest] = sort
    return {
        digest: AsUneven(loop, program)
        for loop, sorts in found.items()
        if len(sorts) >= MANY and len(set(sorts.values())) > 1
        for digest in sorts
    }


def _loop(cause: Cause, program: ProgramText) -> SourceLine | None:
    """The innermost loop around a cause, in its own function, that is no loop of steps.

    What calls the function may be a loop over layers, which run in every step.
    """
    around = enclosing(program.lines, own_frames(cause)[:1])
    is_within = around is not None and around.loop[:2] not in program.step_loops
    return around.loop if around and is_within else None
