"""Whether two modules give the same values for the same arguments, but for rounding.

Rules that know how a computation may be written otherwise never end; this asks the values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import without_ones
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.coverage import deep_forms_of, forms_of
from xlagraph.evaluate.domains import assumptions, of_rows_and_masks
from xlagraph.evaluate.draws import POINTS
from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.evaluate.influence import lone_numbers_count
from xlagraph.evaluate.pairing.handed_in import (
    MAX_PARTNERS,
    Numbers,
    are_handed_in,
    takes_more,
)
from xlagraph.evaluate.pairing.inputs import (
    MAX_ASSIGNMENTS,
    RESPONSES,
    Asked,
    assignments,
    by_response,
    fitting_numbers,
    input_shapes,
    likely_assignments,
)
from xlagraph.evaluate.pairing.solved import solved_numbers
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.question import Question, SameValues
from xlagraph.evaluate.stated import annotations_agree, effects_agree, headers_agree
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xlagraph.diff import Diff
    from xlagraph.evaluate.domains import Assumed
    from xlagraph.graph import Module

    Ways = Callable[[tuple[Program, Program], Assumed], Iterator[tuple[int, ...]]]
    """For each input of A one of B, in several ways."""

MAX_MORE = 8
"""Outputs that one module may have more than the other."""
FEW = 0.1
"""The part of the outputs that may be whole numbers or truth values made of floats, as a count of
right answers is: they say little of what they are made of."""
HANDED_ON = frozenset({"call", "get-tuple-element", "parameter", "tuple"})
"""What only hands on what is computed elsewhere, in a function perhaps."""


def same_values(diff: Diff) -> SameValues | None:
    """How two modules give the same values for the same arguments.

    None where they are not, or where it cannot be told: an instruction is not evaluated, the
    modules cost too much, an output is never a number, or always the same. What inputs are known
    to be by name holds.
    """
    return _told(_same_values, diff)


def same_for_equal_inputs(diff: Diff) -> SameValues | None:
    """`same_values` of a module and what an edit made of it: no input is another one's."""
    return _told(_with_paired_inputs, diff)


def _told(ask: Callable[[Diff], SameValues | None], diff: Diff) -> SameValues | None:
    try:
        return ask(diff)
    except XlagraphError:
        return None
    except Exception:  # noqa: BLE001 - it adds to an answer that is there, and must not take it away
        return None


def _same_values(diff: Diff) -> SameValues | None:
    if found := _with_equal_inputs(diff):
        return found
    programs = _programs(diff) if are_handed_in(diff.a, diff.b) else None
    return _with_numbers(diff, programs, _shapes(diff)) if programs else None


def _with_equal_inputs(diff: Diff) -> SameValues | None:
    """Where both take inputs of the same shapes: no number is another one."""

    def ways(programs: tuple[Program, Program], assumed: Assumed) -> Iterator[tuple[int, ...]]:
        return islice(assignments(diff, programs, assumed, asking), MAX_ASSIGNMENTS)

    asking = Budget(RESPONSES)
    return _in_these_ways(diff, ways)


def _with_paired_inputs(diff: Diff) -> SameValues | None:
    """The same, each input being the one that it is paired with, or that at its place."""
    return _in_these_ways(diff, lambda *_: likely_assignments(diff))


def _in_these_ways(diff: Diff, ways: Ways) -> SameValues | None:
    a, b = diff.a, diff.b
    programs = _programs(diff) if sorted(input_shapes(a)) == sorted(input_shapes(b)) else None
    if programs is None:
        return None
    budget = Budget()
    answers = (
        _answer(
            diff,
            Question(programs, _shapes(diff), _preferred(diff), budget, assumed),
            ways(programs, assumed),
        )
        for assumed in assumptions(diff)
    )
    return _fullest(answers)


def _shapes(diff: Diff) -> tuple[list[str], list[str]]:
    return _squeezed(diff.a), _squeezed(diff.b)


def _programs(diff: Diff) -> tuple[Program, Program] | None:
    """Both modules to be evaluated; None where they are not to be compared so."""
    a, b = diff.a, diff.b
    if not _take_alike(a, b) or a.gives_tuple != b.gives_tuple:
        return None
    counts = tuple(Counter(shapes) for shapes in _shapes(diff))
    more = (counts[0] - counts[1]).total(), (counts[1] - counts[0]).total()
    if (more[0] and more[1]) or max(more) > MAX_MORE or not annotations_agree(a, b):
        return None
    programs = Program(a), Program(b)
    if POINTS * (programs[0].cost + programs[1].cost) > Budget().operations:
        return None
    if not effects_agree(*programs):
        return None
    if any(sum(one.discrete_outputs) > FEW * len(one.discrete_outputs) for one in programs):
        return None
    return programs


def _fullest(answers: Iterable[SameValues | None]) -> SameValues | None:
    """The first answer that holds for arguments of 0 as well, else the first of all.

    Where a mask takes any number some of them may be no mask's, as a row that is left out whole.
    """
    first: SameValues | None = None
    try:
        for found in filter(None, answers):
            if not found.parts_at_zero:
                return found
            first = first or found
    except NotEvaluatedError:
        if first is None:
            raise
    return first


def _take_alike(a: Module, b: Module) -> bool:
    """Whether both take inputs of the same shapes, but for numbers."""
    taken = [sorted(shape for shape in input_shapes(m) if not shape.endswith("[]")) for m in (a, b)]
    return taken[0] == taken[1]


def _answer(diff: Diff, asked: Question, ways: Iterable[tuple[int, ...]]) -> SameValues | None:
    """The first of these assignments of inputs with which all outputs agree."""
    for way in ways:
        outputs = asked.outputs(way)
        if outputs is None:
            continue
        shapes = tuple(output_shapes(program.module) for program in asked.programs)
        both = {k: n for k, n in enumerate(outputs) if n >= 0 and shapes[0][k] == shapes[1][n]}
        inputs = {k: n for k, n in enumerate(way) if n >= 0}
        one, other = asked.programs
        if headers_agree(one.module, other.module, inputs, both):
            is_seen = _is_seen(diff, asked) or (asked.look_nearer(way) and _is_seen(diff, asked))
            return asked.told(way, outputs) if is_seen and _numbers_count(asked) else None
    return None


def _numbers_count(asked: Question) -> bool:
    """Whether each number that one text alone has was seen to count in it."""
    one, other = asked.in_order
    rows = asked.assumed.rows
    given = [number for fixed in asked.numbers.fixed for number in fixed.values()]
    return all(lone_numbers_count(*two, rows, given) for two in ((one, other), (other, one)))


def _with_numbers(
    diff: Diff, programs: tuple[Program, Program], shapes: tuple[list[str], list[str]]
) -> SameValues | None:
    """The answer where numbers that are handed in are others in one module than in the other.

    Those of the module that takes more are sought.
    """
    is_turned = takes_more(diff.a, diff.b)
    if is_turned:
        programs, shapes = (programs[1], programs[0]), (shapes[1], shapes[0])
    every = [*of_rows_and_masks(*(program.module for program in programs))]
    asked = Asked(programs, Budget(RESPONSES), every[-1])
    for numbers in chain(_until_spent(fitting_numbers(asked)), _solved(asked)):
        told = replace(asked, numbers=numbers, budget=Budget(RESPONSES))
        ways = [*islice(by_response(told), MAX_PARTNERS)]
        for assumed in every:
            own = Question(
                *(programs, shapes, range(len(shapes[0])), Budget(), assumed, numbers),
                is_turned=is_turned,
            )
            if found := _answer(diff, own, ways):
                return found
    return None


def _until_spent(found: Iterator[Numbers]) -> Iterator[Numbers]:
    """These numbers, as long as what asking them may cost is not spent."""
    try:
        yield from found
    except NotEvaluatedError:
        return


def _solved(asked: Asked) -> Iterator[Numbers]:
    """Numbers that are solved for, with a budget of its own."""
    return _until_spent(solved_numbers(replace(asked, budget=Budget(RESPONSES // 2))))


def _is_seen(diff: Diff, asked: Question) -> bool:
    """Whether what differs in writing was seen to count at some of the arguments.

    What was not has to stand in both: bounds that nothing exceeds, of numbers that both have. Those
    that are handed in are told. A position in a ring has to be seen beyond its end, wherever it is.
    """
    a, b = asked.in_order
    if not all(one.coverage.wraps_all(one.module) for one in (a, b)):
        return False
    in_rows = asked.assumed.rows > 0
    sides = (a, b, diff.differing_in_a), (b, a, diff.differing_in_b)
    for (own, other, changed), fixed in zip(sides, asked.fixed, strict=True):
        cut = own.coverage.cut_off(own.module, changed, in_rows=in_rows)
        every = range(len(other.module))
        if not deep_forms_of(own.module, cut) <= deep_forms_of(other.module, every):
            return False
        unseen = own.coverage.unseen(own.module, changed, in_rows=in_rows) - fixed
        left = {i for i in unseen if own.module.opcodes[i] not in HANDED_ON}
        if left:
            module = other.module
            theirs = other.coverage.unseen(module, every, in_rows=in_rows)
            constants = (i for i, opcode in enumerate(module.opcodes) if opcode == "constant")
            numbers = filter(other.needs, constants)
            if not forms_of(own.module, left) <= forms_of(module, {*theirs, *numbers}):
                return False
    return True


def output_shapes(module: Module) -> list[str]:
    """The shapes of the outputs, without layouts."""
    return [read_shape(module.shapes[i]).without_layout() for i in module.outputs]


def _squeezed(module: Module) -> list[str]:
    """The same without axes of one element, which change no value: a gradient may be kept so."""
    shapes = (read_shape(module.shapes[i]) for i in module.outputs)
    return [f"{one.element_type}{[*without_ones(one.dimensions)]}" for one in shapes]


def _preferred(diff: Diff) -> list[int]:
    partners = {slot.a: slot.b for slot in diff.outputs if slot.b is not None}
    return [partners.get(k, k) for k in range(len(diff.a.outputs))]
