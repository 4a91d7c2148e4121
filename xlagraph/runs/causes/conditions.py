"""Graphs that differ in what a condition in Python decides in each turn of a loop within the step.

``for t in range(n): h = cell(x[t], h); if dones[t]: h = zeros``: every pattern of turns in which it
holds is a graph of its own. One of them shows the line below the condition; in others the pieces of
the turns pair as they may, and look like operations in another order. A condition that reads a
value (``if mask.sum() == 0: continue``) ends a graph at its own line: that of a turn shows there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.facts.program.written import indentation
from xlagraph.message import Code, count, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT
from xlagraph.runs.causes.drawn import (
    VALUES,
    frames_from,
    frames_in_step,
    is_in_turn_of,
    own_frames,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.cause.verdict import Place
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
READ_FIX = say(
    "A value is read in each turn of the loop, and by it Python leaves turns out: every set of "
    "turns is a graph of its own, and each read waits for the device. Compute all turns in every "
    "step, and let those that do not count add 0: ",
    Code("valid = torch.stack(conditions).float()"),
    ", ",
    Code("(torch.stack(values) * valid).sum() / valid.sum().clamp_min(1)"),
    " (a value that may be no number where it does not count is replaced first: ",
    Code("torch.where(condition, value, 0)"),
    ").",
)
COUNTS = frozenset({ACCUMULATION_COUNT, PYTHON_SIZE})
OF_TURNS = (
    VALUES
    | COUNTS
    | {
        ATTRIBUTE,
        CONSTANT_VALUE,
        LONGER_BACKWARD,
        PYTHON_INDEX,
        REORDERED_OPERANDS,
        REORDERED_SUM,
        SHARED_SCALAR,
        SPECIAL_SCALAR,
    }
)
"""What a graph looks like in which other turns are left out: their numbers, and how many."""
_IF = re.compile(r"(?:if|elif)\b")
_NAMED = re.compile(r"(\w+)\s*=[^=]")
_LEAVES = re.compile(r"(?:break|return)\b")
_GOES_ON = re.compile(r"(?:if|elif)\b.*:\s*continue$")


@dataclass(frozen=True, slots=True)
class AsDecided:
    """Says the cause of a single graph as what a condition decides over the run."""

    branch: SourceLine
    """The line of the condition."""
    loop: SourceLine
    """Whose turns it decides about, in the same function."""

    def may_make(self, cause: Cause) -> bool:
        """Whether a cause is a piece of what the loop computes, in its backward pass perhaps."""
        return cause.kind in VALUES and self.is_in_turn(cause.place)

    def is_in_turn(self, place: Place) -> bool:
        """Whether what stands at a place runs in the turns of the loop."""
        frames = frames_from(place) or ([place.line] if place.line else [])
        return is_in_turn_of(self.loop, frames)

    def leaves(self, places: Sequence[Place]) -> bool:
        """Whether all that is left of a graph stands in the loop's turns."""
        return bool(places) and all(map(self.is_in_turn, places))

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


@dataclass(frozen=True, slots=True)
class AsRead:
    """Says the cause of a single graph as what a value says that is read in each turn of a loop."""

    read: SourceLine
    """The line that reads it."""
    loop: SourceLine
    """Whose turns it decides about, in the same function."""
    first: int
    """The first line of the file that it decides about, and the last."""
    last: int

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause comes of what the value says as well: how many turns there are is one."""
        return cause.kind in COUNTS or self.shows_in(cause)

    def shows_in(self, cause: Cause) -> bool:
        """Whether a cause stands in what is computed in a turn only if the value says so."""
        return cause.kind in OF_TURNS and any(
            (one.file, one.function) == (self.loop.file, self.loop.function)
            and self.first <= one.line <= self.last
            for one in _frames(cause)
        )

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with the read and its loop."""
        return replace(
            cause,
            kind=REPLACED_SUBGRAPH,
            title=say(
                "a value that is read in each turn of the loop",
                at((self.loop,)),
                ", by a condition",
                at((self.read,)),
                f", decides which turns are computed: {count(len(members), 'graph')}",
            ),
            fix=READ_FIX,
            short=say("a value read in each turn of a loop decides which turns are computed"),
            short_fix=say("Compute all turns in every step; those that do not count add 0."),
            place=replace(cause.place, line=self.read, stack=(self.read,), source=()),
        )


def _frames(cause: Cause) -> list[SourceLine]:
    """Those around a cause's line, of the forward pass or of what a backward pass is of."""
    line = cause.place.line
    own = [one for one in (line, *cause.place.stack) if one and not one.is_library]
    return own_frames(cause) or own


def read_in_turns(
    nodes: Iterable[GraphNode], told: Iterable[GraphNode], program: ProgramText
) -> dict[str, AsRead]:
    """Digest to what is said of graphs that lack turns of a loop which reads a value in each.

    Args:
        nodes: all graphs of the run, those that end by a read among them.
        told: graphs with causes; one that stands in what the value decides about is enough.
        program: what is known of its text. Loops in which steps end do not count.
    """
    reads = {node.call_site for node in nodes if node.sync_kind == "value" and node.call_site}
    asked = [one for line in reads for one in _as_read(line, program)]
    found: defaultdict[AsRead, list[str]] = defaultdict(list)
    for node in told:
        causes = node.explanation.causes if node.explanation else ()
        fitting = (one for one in asked if any(map(one.shows_in, causes)))
        if causes and causes[0].kind in OF_TURNS and (one := next(fitting, None)):
            found[one].append(node.digest)
    return {d: one for one, digests in found.items() if len(digests) >= MANY for d in digests}


def _as_read(line: SourceLine, program: ProgramText) -> Iterator[AsRead]:
    """What a read decides about, if it is of a condition in a loop within the step."""
    lines, loop = program.lines.get(line.file, {}), program.loop_in_step(line)
    number = _condition_of(lines, line.line)
    if loop is None or number is None or lines[loop.line].strip().startswith("while"):
        return  # what it reads says how many turns there are
    column = indentation(lines[number])
    body = list(_block(lines, number, column))
    texts = [lines[one].strip() for one in body] or [lines[number].partition(":")[2].strip()]
    if any(map(_LEAVES.match, texts)):
        return  # what it decides is where the loop ends
    if "continue" in texts or _GOES_ON.match(lines[number].strip()):
        body = [
            one for one in _block(lines, loop.line, indentation(lines[loop.line])) if one > number
        ]
    if body:
        yield AsRead(line, loop, body[0], body[-1])


def _condition_of(lines: Mapping[int, str], number: int) -> int | None:
    """The line of the condition that a value is read for: its own, or one of what it names."""
    text = lines.get(number, "").strip()
    if _IF.match(text):
        return number
    named = _NAMED.match(text)
    if named is None:
        return None
    asks = re.compile(rf"(?:if|elif)\b.*\b{named[1]}\b")
    below = _block(lines, number, indentation(lines[number]) - 1)
    return next((one for one in below if asks.match(lines[one].strip())), None)


def _block(lines: Mapping[int, str], number: int, column: int) -> Iterator[int]:
    """The lines below one that stand further in than a column, as far as they are stored."""
    while (number := number + 1) in lines:
        if not lines[number].strip():
            continue
        if indentation(lines[number]) <= column:
            return
        yield number
