"""Which outputs of two modules have the same values, where others have not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import are_close, is_finite, is_number, moved_by, varies
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.draws import arguments_at, rounded_otherwise, scaled_down
from xlagraph.evaluate.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.draws import Domains
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

COMPARED = 3
"""At how many arguments outputs are compared."""
MAX_DOWN = 3
"""How often smaller ones are looked for."""


class AlikeOutputs(NamedTuple):
    """For each output of A what B gives in its place."""

    partners: tuple[int | None, ...]
    """The output of B that has its shape, and its values wherever both were evaluated, if any."""
    telling: tuple[bool, ...]
    """Whether its values are numbers, and others for other arguments."""
    one_way: tuple[frozenset[int], frozenset[int]]
    """Comparisons of A, and of B, that had one outcome alone: what follows from these is not known
    to be equal."""


def alike_outputs(diff: Diff) -> AlikeOutputs | None:
    """Which outputs of A B gives as well, for equal values of the inputs that both have.

    None where it cannot be told: an instruction is not evaluated, the modules cost too much, or one
    of them takes a tensor that the other does not.
    """
    try:
        return _alike_outputs(diff)
    except (XlagraphError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        return None


def _alike_outputs(diff: Diff) -> AlikeOutputs | None:
    a, b = Program(diff.a), Program(diff.b)
    budget = Budget()
    too_much = COMPARED * (3 * a.cost + b.cost) > budget.operations
    if too_much or _takes_more(diff.a, diff.match.to_b) or _takes_more(diff.b, diff.match.to_a):
        return None
    values: list[list[Array]] = []
    theirs: list[list[Array]] = []
    noise: list[list[float]] = []
    inputs = _input_partners(diff)
    domains, theirs_too = a.domains.both_mark(b.domains), b.domains.both_mark(a.domains)
    for point in range(COMPARED):
        given, once = _given(a, domains, point, budget)
        taken = arguments_at(point, b.parameters, theirs_too)
        for k, n in inputs:
            taken[n] = given[k]
        moved = [rounded_otherwise(x, (point, 0, k)) for k, x in enumerate(given)]
        again = a.run(moved, budget, point + 1)
        values.append(once)
        theirs.append(b.run(taken, budget, point + 1))
        a.coverage.settle(keep=True)
        b.coverage.settle(keep=True)
        noise.append([moved_by(x, y, 0.0) for x, y in zip(once, again, strict=True)])
    columns = list(zip(*values, strict=True))
    others = list(zip(*theirs, strict=True))
    room = list(zip(*noise, strict=True))
    rows = zip(columns, room, strict=True)
    pairs = (next((n for n, x in enumerate(others) if _agree(*row, x)), None) for row in rows)
    telling = (varies(column) and is_number(column) for column in columns)
    return AlikeOutputs(
        tuple(pairs), tuple(telling), (a.coverage.one_way(diff.a), b.coverage.one_way(diff.b))
    )


def _given(
    program: Program, domains: Domains, point: int, budget: Budget
) -> tuple[list[Any], list[Array]]:
    """Arguments of a program, smaller ones where its values leave their range, and its outputs."""
    given = arguments_at(point, program.parameters, domains)
    made = program.run(given, budget, point + 1)
    for _ in range(MAX_DOWN):
        if is_finite(made):
            break
        program.coverage.settle(keep=False)
        given = [scaled_down(x) for x in given]
        made = program.run(given, budget, point + 1)
    return given, made


def _takes_more(module: Module, partners: Sequence[int]) -> bool:
    """Whether a side takes a tensor that the other does not; single numbers aside."""
    inputs = module.entry_computation.parameters
    return any(partners[p] < 0 and not module.shapes[p].endswith("[]") for p in inputs)


def _input_partners(diff: Diff) -> list[tuple[int, int]]:
    """The inputs that both modules have: the number in A, and in B."""
    numbers = {p: n for n, p in enumerate(diff.b.entry_computation.parameters)}
    found = (numbers.get(diff.match.to_b[p]) for p in diff.a.entry_computation.parameters)
    return [(k, n) for k, n in enumerate(found) if n is not None]


def _agree(values: Sequence[Array], noise: Sequence[float], others: Sequence[Array]) -> bool:
    """Whether two outputs are equal at all points, but for rounding."""
    return all(
        x.shape == y.shape and x.dtype == y.dtype and are_close(x, y, far)
        for x, y, far in zip(values, others, noise, strict=True)
    )
