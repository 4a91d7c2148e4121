"""A loop within a step whose turns differ from step to step in many ways, for one reason.

Or a function that calls itself, as often and as deep as the data of a step say.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing, head_of
from xlagraph.message import Code, SourceLine, count, say
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
    from xlagraph.message import Message
    from xlagraph.runs.model import GraphNode

PIECES = frozenset({ADDED_INPUT, EARLY_EXECUTION, EXTRA_SUBGRAPH, OTHER_OPERAND, REPLACED_SUBGRAPH})
NUMBERS = frozenset({CONSTANT_VALUE, PYTHON_INDEX, SHARED_SCALAR, SPECIAL_SCALAR})
ORDERS = frozenset({REORDERED_OPERANDS, REORDERED_SUM})
SORTS = (PIECES, NUMBERS, ORDERS)
"""What graphs look like in which turns are left out, or have other numbers, or another order."""
KNOWN = PIECES | NUMBERS | ORDERS
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
NUMBER_FIX = say(
    "The number of turns is a Python number, and every number is a graph of its own. Run as many "
    "turns in every step, the most there are, and send the number as a tensor, so that a turn "
    "beyond it leaves values as they are: ",
    Code("state = torch.where(k < n, new, state)"),
    ".",
)
RECURSION_FIX = say(
    "Python calls the function once for each node, so that the graph has the shape of the data: "
    "every new tree is a graph of its own. Compute level by level instead, all nodes of a level at "
    "once, on tensors that are padded to the most nodes and levels there are, with the children as "
    "a tensor of indices and a mask; or collect inputs of one shape in a batch."
)
RECURSION_SHORT_FIX = say("Compute level by level, on padded tensors and indices.")
_NUMBER = re.compile(r"\bin\s+range\((?:\w+,\s*)?(?![A-Z0-9_]+\))([a-zA-Z_][\w.]*)\)")
"""The head of a loop of so many turns, by a name that is no constant's."""
_FOUND = re.compile(r"\bin\b.*(?:\bunique\(|\.tolist\(|\bnonzero\(|\.item\(|\bset\()")
"""The head of a loop over what the data holds."""


@dataclass(frozen=True, slots=True)
class AsUneven:
    """Says the causes of single graphs as what their loop does over the run."""

    loop: SourceLine
    program: ProgramText = field(compare=False)

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause comes of what the loop's turns do as well."""
        return _loop(cause, self.program) == self.loop or self.reaches(cause)

    def reaches(self, cause: Cause) -> bool:
        """Whether a cause stands in what a turn calls, or takes in what a turn makes."""
        called = own_frames(cause)[1:]
        named = [part for part in cause.title.parts if isinstance(part, SourceLine)]
        around = (enclosing(self.program.lines, [line]) for line in (*called, *named))
        return any(one is not None and one.loop == self.loop for one in around)

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the loop's line."""
        sizes = {node.instructions for node in members}
        which, fix, short, short_fix = self._words(is_longer=len(sizes) > 1)
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

    def _words(self, *, is_longer: bool) -> tuple[str, Message, Message, Message]:
        head = self.program.lines.get(self.loop.file, {}).get(self.loop.line, "")
        if _FOUND.search(head):
            return (
                ", which goes over values found in the data,",
                FOUND_FIX,
                say("a loop goes over values found in the data"),
                say("Go over all values in every step, so that absent ones add 0."),
            )
        number = _NUMBER.search(head)
        if number and is_longer:
            return (
                f", of which there are {number[1]},",
                NUMBER_FIX,
                say("a loop has another number of turns: ", Code(number[1])),
                say("Run the most turns in every step; leave values as they are beyond."),
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
        causes: graphs with their main cause. What a turn calls, and what takes in what it makes,
            goes with the loop where others differ within it.
        program: what is known of its text. Loops in which steps end do not count.
    """
    found: defaultdict[SourceLine, dict[str, int]] = defaultdict(dict)
    told = [*causes]
    for node, cause in told:
        sort = next((k for k, sort in enumerate(SORTS) if cause.kind in sort), None)
        loop = _loop(cause, program)
        if loop and sort is not None:
            found[loop][node.digest] = sort
    uneven = {
        digest: AsUneven(loop, program)
        for loop, sorts in found.items()
        if len(sorts) >= MANY and len(set(sorts.values())) > 1
        for digest in sorts
    }
    loops = [*dict.fromkeys(uneven.values())]
    behind = {
        node.digest: next((one for one in loops if one.reaches(cause)), None)
        for node, cause in told
        if node.digest not in uneven and cause.kind in KNOWN
    }
    return uneven | {digest: one for digest, one in behind.items() if one}


def _loop(cause: Cause, program: ProgramText) -> SourceLine | None:
    """The innermost loop around a cause, in its own function, that is no loop of steps.

    What calls the function may be a loop over layers, which run in every step.
    """
    around = enclosing(program.lines, own_frames(cause)[:1])
    is_within = around is not None and around.loop[:2] not in program.step_loops
    return around.loop if around and is_within else None


@dataclass(frozen=True, slots=True)
class AsRecursion:
    """Says the causes of single graphs as what a function does that calls itself."""

    call: SourceLine
    """Where it does."""

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause stands in the function, or in what it calls."""
        return (self.call.file, self.call.function) in _functions(cause)

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the line of the call."""
        name = Code(f"{self.call.function}()")
        return replace(
            cause,
            kind=EXTRA_SUBGRAPH,
            title=say(
                *(name, " calls itself", at((self.call,)), ", as the data of a step say: "),
                count(len(members), "graph"),
            ),
            fix=RECURSION_FIX,
            short=say("a function calls itself as the data say: ", name),
            short_fix=RECURSION_SHORT_FIX,
            place=replace(cause.place, line=self.call, stack=(self.call,), source=()),
        )


def recursions(
    causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText
) -> dict[str, AsRecursion]:
    """Digest to what is said of graphs that differ within a function that calls itself.

    Args:
        causes: graphs with their main cause.
        program: what is known of its text: layers within layers have a `forward` each.
    """
    told = [(node, cause) for node, cause in causes if cause.kind in KNOWN]
    calls: dict[tuple[str, str], SourceLine] = {}
    for _, cause in told:
        frames = own_frames(cause)
        for outer, inner in pairwise(reversed(frames)):
            if head_of(program.lines, outer) == head_of(program.lines, inner) is not None:
                calls.setdefault((outer.file, outer.function), outer)
    found = {
        node.digest: next((calls[one] for one in _functions(cause) if one in calls), None)
        for node, cause in told
    }
    often = Counter(call for call in found.values() if call)
    return {
        digest: AsRecursion(call) for digest, call in found.items() if call and often[call] >= MANY
    }


def _functions(cause: Cause) -> list[tuple[str, str]]:
    """The program's functions around the line of a cause, innermost first."""
    return [(line.file, line.function) for line in own_frames(cause)]
