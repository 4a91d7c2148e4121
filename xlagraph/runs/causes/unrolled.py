"""Turns of a loop that stand in one graph, in a number that changes: no sync ends each of them.

A graph tells how many backward passes it holds, for each begins with the gradient of its loss,
which has the line of the call. Where that call stands in a loop, and graphs of one place hold
different numbers, the graphs are unrolled turns, and differ in whatever turns differ in.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import early_end, enclosing, runs_in_turn
from xlagraph.message import EMPTY, Code, GraphName, SourceLine, count, join, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT, MISSING_BARRIER
from xlagraph.runs.causes.uneven_turns import ORDERS, PIECES
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.turns import CallPlace

MANY = 2
"""So many graphs beyond warm-up at least; what a single one differs in is said of that."""
NUMBERS = PIECES | {ACCUMULATION_COUNT, MISSING_BARRIER, LIVE_TENSOR, OUTPUT_ORDER}
"""What graphs look like that hold more turns or fewer: what is not said beside it."""
TURNS = NUMBERS | ORDERS | {INPUT_SHAPE, PYTHON_SIZE}
"""What graphs with as many turns look like, where turns differ."""
MANY_NUMBERS = 3
"""A loop that has so many numbers of turns at least has no usual one."""
MAX_TOLD = 8

_READ = re.compile(r"\.item\(|\bfloat\(|\bbool\(")
_CONTINUE = re.compile(r"\s*(?:(?:if|elif|else)\b.*:\s*)?continue\b")


class UnrolledLoop(NamedTuple):
    """A loop of which graphs of one place hold several turns."""

    line: SourceLine
    """Where it begins."""
    turns: dict[str, int]
    """Digest of each graph to how many it holds, in the order in which they came."""
    updates: bool
    """An optimizer steps in each turn: the more turns, the more operations it makes."""

    @property
    def is_open(self) -> bool:
        """Whether no number of turns is the usual one: none is that of most graphs."""
        numbers = Counter(self.turns.values())
        return len(numbers) >= MANY_NUMBERS and max(numbers.values()) * 2 <= len(self.turns)


def unrolled_loops(graphs: Sequence[CapturedGraph], program: ProgramText) -> list[UnrolledLoop]:
    """The loops of a run whose turns stand in one graph, in different numbers."""
    found: defaultdict[tuple[CallPlace, SourceLine], dict[str, int]] = defaultdict(dict)
    updated: defaultdict[SourceLine | None, Counter[str]] = defaultdict(Counter)
    for graph in graphs:
        if graph.sync is None or not graph.sync.ends_step:
            continue
        place = call_place(graph.process, graph.sync)
        for frames, number in graph.sketch.passes:
            loop = _loop(frames, program)
            if loop and not _ends_each_turn(graph, frames, loop, program):
                turns = found[place, loop]
                turns[graph.record.digest] = max(number, turns.get(graph.record.digest, 0))
        for frames, number in graph.sketch.updates:
            updated[_loop(frames, program)][graph.record.digest] += number
    return [
        UnrolledLoop(loop, turns, _goes_with(updated[loop], turns))
        for (_, loop), turns in found.items()
        if len(set(turns.values())) > 1
    ]


def _goes_with(made: Mapping[str, int], turns: Mapping[str, int]) -> bool:
    """Whether there is more of something in graphs of more turns, rather than as much in each."""
    few, many = min(turns, key=turns.__getitem__), max(turns, key=turns.__getitem__)
    ratio = turns[many] / turns[few]
    return made.get(many, 0) > made.get(few, 0) * (1 + ratio) / 2


def _loop(frames: Sequence[SourceLine], program: ProgramText) -> SourceLine | None:
    """The innermost loop around a call.

    One in which steps end counts only where all that is between is in sight: there may be another
    loop in a function that is called.
    """
    around = enclosing(program.lines, frames)
    if around is None:
        return None
    loop = around.loop
    if loop[:2] in program.step_loops and not runs_in_turn(program.lines, frames, loop):
        return None
    return loop


def _ends_each_turn(
    graph: CapturedGraph, frames: Sequence[SourceLine], loop: SourceLine, program: ProgramText
) -> bool:
    """Whether the sync of a graph comes in every turn of a loop in which a call does.

    It stands in the loop's body, under no condition there, and nothing goes on to the next turn
    between the two.
    """
    site = [SourceLine(frame.file, frame.line, frame.function) for frame in graph.site]
    around = enclosing(program.lines, site)
    if around is None or around.loop[:2] != loop[:2] or around.branch is not None:
        return False
    call, end = _in_function(loop, frames), _in_function(loop, site)
    return not (call and end and _goes_on(loop, range(call.line + 1, end.line), program))


def _in_function(loop: SourceLine, frames: Sequence[SourceLine]) -> SourceLine | None:
    """The frame of the function in which a loop stands."""
    own = (loop.file, loop.function)
    return next((one for one in frames if (one.file, one.function) == own), None)


def _goes_on(loop: SourceLine, numbers: Iterable[int], program: ProgramText) -> bool:
    """Whether one of these lines leaves a turn of a loop for the next one."""
    lines = program.lines.get(loop.file, {})
    leaves = (loop._replace(line=n) for n in numbers if _CONTINUE.match(lines.get(n, "")))
    found = (enclosing(program.lines, [one]) for one in leaves)
    return any(one is not None and one.loop[:2] == loop[:2] for one in found)


@dataclass(frozen=True, slots=False, eq=False)
class AsUnrolled:
    """Says the causes of single graphs as the turns that they hold."""

    loop: UnrolledLoop
    nodes: Sequence[GraphNode]
    """All graphs of the run."""
    program: ProgramText

    def members(self) -> list[str]:
        """Digests of the graphs that come of it, if there are several.

        A number of turns that no graph had before makes one; with a number that was there, one
        that holds several differs in their sizes or in their order.
        """
        known: set[int] = set()
        found = []
        for node in self.nodes:
            turns = self.loop.turns.get(node.digest)
            if turns is None:
                continue
            is_new = turns not in known
            known.add(turns)
            if node.warm_up or not node.explanation or node.explanation.same:
                continue
            if is_new or (turns > 1 and self._differs_in_turns(node)):
                found.append(node.digest)
        explained = {n.digest for n in self.nodes if n.explanation and n.explanation.causes}
        return found if len(found) >= MANY and not explained.isdisjoint(found) else []

    def _differs_in_turns(self, node: GraphNode) -> bool:
        """Whether a graph looks like one with as many turns that compute something else.

        Where several turns differ at once no single cause may fit.
        """
        causes = node.explanation.causes if node.explanation else ()
        if not causes:
            return len({*self.loop.turns.values()}) >= MANY_NUMBERS
        return causes[0].kind in TURNS or self._has_equal_numbers(causes[0])

    def _has_equal_numbers(self, cause: Cause) -> bool:
        """Whether numbers of the turns are equal in some graphs only.

        They are those of one graph only because the turns are. Where the loop has a usual number of
        turns, the numbers are what goes on, and are a cause of their own.
        """
        if cause.kind is not SHARED_SCALAR or not self.loop.is_open:
            return False
        place = cause.place
        frames = place.stack or ((place.line,) if place.line else ())
        around = enclosing(self.program.lines, frames)
        return around is not None and around.loop[:2] == self.loop.line[:2]

    @cached_property
    def kind(self) -> Kind:
        """Steps in one graph, or passes whose gradients are added up."""
        causes = (node.explanation.causes for node in self._held if node.explanation)
        is_step = any(cause.kind is MISSING_BARRIER for found in causes for cause in found)
        return MISSING_BARRIER if self.loop.updates or is_step else ACCUMULATION_COUNT

    @property
    def _held(self) -> list[GraphNode]:
        return [node for node in self.nodes if node.digest in self.loop.turns]

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause comes of the number of turns as well, as a mean over them does."""
        return cause.kind in NUMBERS | ORDERS | {SHARED_SCALAR, SPECIAL_SCALAR}

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause of one of these graphs, of all of them."""
        loop, numbers = self.loop.line, sorted(set(self.loop.turns.values()))
        what = "steps" if self.kind is MISSING_BARRIER else "passes"
        held = f"{numbers[0]} to {numbers[-1]} {what} are in one graph"
        told = (
            say(GraphName(node.letter), f" {self.loop.turns[node.digest]}") for node in self._held
        )
        equal = self._of_equal_numbers(members)
        end = self._read_end() if self.kind is ACCUMULATION_COUNT else None
        words = self._words(what, held, is_equal=bool(equal)) if end is None else _ends(held, end)
        return replace(
            cause,
            kind=self.kind,
            title=say(
                f"{held}, for no sync ends each turn of the loop", at((loop,)), ", and their "
                f"number changes, or what they compute does: {count(len(members), 'graph')}",
            ),
            evidence=(
                Evidence(
                    say("how many turns each graph holds: ", join(told, MAX_TOLD)), sources=(loop,)
                ),
                *equal,
            ),
            fix=words.fix,
            short=words.short,
            short_fix=words.short_fix,
            effect=EMPTY,
            place=Place(loop, (loop,)),
            seen=None,
        )  # fmt: skip

    def _read_end(self) -> SourceLine | None:
        """The line at which the loop ends early, if a value is read there that decides it."""
        end = early_end(self.program.lines, self.loop.line)
        text = self.program.lines[end.file][end.line] if end else ""
        return end if _READ.search(text) else None

    def _words(self, what: str, held: str, *, is_equal: bool) -> Words:
        """What is said of turns none of which ends a graph."""
        line = self.loop.line.line
        kept = (
            " Keep the gradients as they are added up, with zero_grad(set_to_none=False), so that "
            "the first turn is like the others. Or have as many turns in every step"
            f"{', and send their numbers in one tensor' if is_equal else ''}."
        )
        return Words(
            say(
                f"Call torch_xla.sync() at the end of each turn of the loop at line {line}: a graph"
                " for each shape of a turn then serves any number of them.",
                "" if what == "steps" else kept,
            ),
            say(f"{held}, their number changes"),
            say(f"End each turn of the loop at line {line} with torch_xla.sync()."),
        )

    def _of_equal_numbers(self, members: Sequence[GraphNode]) -> tuple[Evidence, ...]:
        """What is said of the graphs that differ in which numbers of their turns are equal."""
        first = [n.explanation.causes[0] for n in members if n.explanation and n.explanation.causes]
        found = [cause for cause in first if self._has_equal_numbers(cause)]
        if not found:
            return ()
        differ = "graphs differ" if len(found) > 1 else "graph differs"
        text = say(
            f"{len(found):,} {differ} in which Python numbers of their turns are equal: equal "
            "numbers of a graph are one parameter"
        )
        return (Evidence(text, sources=found[0].lines),)


def _ends(held: str, end: SourceLine) -> Words:
    """What is said of turns that end where a value says so."""
    fix = say(
        f"The loop ends early at line {end.line}, so that each number of turns is a graph of its "
        "own, and what decides it is read in each turn. Run a fixed number of turns, and keep what "
        "a turn makes only where it goes on, which a tensor on the device tells: ",
        Code("x = torch.where(goes_on, new, x)"),
        ".",
    )
    short = say(f"{held}, since a loop ends early at line {end.line}")
    return Words(fix, short, say("Run a fixed number of turns; select with torch.where."))
