"""Means that one version divides by a number of its own: of all values, or of the rows alone."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.sources import line_of
from xlagraph.cause.verdict import Verdict
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.case import Case, SideView
    from xlagraph.evaluate import SameValues
    from xlagraph.graph import Module

FIX = say("Print the number, or compare the losses of both.")
NOTE = say(
    "All else gives the same values, but for rounding. A Python number is not in the text: a sum "
    "over several axes may be divided by all values, or by the size of one axis, as by the batch."
)


def is_unsure(verdict: Verdict) -> bool:
    """Whether a verdict says that a number decides whether both are the same."""
    return verdict.fix == FIX


class _Mean(NamedTuple):
    """A sum that is divided by a number that is handed in."""

    view: SideView
    number: int
    """The input."""
    divide: int
    summed: int
    """What is summed up."""
    size: int
    """What the number has to be for both to agree."""


def unsure_mean(case: Case, found: SameValues) -> Verdict | None:
    """What is said where both agree only if a mean is one of all values; None where none is so.

    The other version has it so in its text. Of one axis there is nothing else to divide by.
    """
    mean = next((one for one in _means(case, found)), None)
    if mean is None:
        return None
    view, other = mean.view, mean.view.side.other
    summed = short_shape(view.module, mean.summed)
    number = parameter_name(view, mean.number)
    what = say(
        *(
            view.side,
            f" divides a sum over {summed} by ",
            number,
            ", ",
            other,
            f" by {mean.size}: ",
        ),
        "the same values only if they agree.",
    )
    line = line_of(view.module, mean.divide)
    return Verdict(what, where=say(line) if line else EMPTY, fix=FIX, notes=(NOTE,))


def _means(case: Case, found: SameValues) -> Iterator[_Mean]:
    """The sums that numbers divide which have to be one number for both to agree."""
    for one in found.handed_in:
        if one.other is not None or one.follows is None or one.hides or one.bounds_nothing:
            continue
        view = case.a if one.side == 0 else case.b
        number = view.module.entry_computation.parameters[one.number]
        yield from _divided_sums(view, number, one.follows.offset)


def _divided_sums(view: SideView, number: int, size: float) -> Iterator[_Mean]:
    """The sums over several axes of so many values that the number divides."""
    from xlagraph.evaluate.domains import applied  # numpy is loaded where it is needed

    module = view.module
    for user, form in applied(module, number):
        total = through(module, module.operands[user][0], SPREADS)
        is_quotient = module.opcodes[user] == "divide" and module.operands[user][1] == form
        if is_quotient and module.opcodes[total] == "reduce":
            summed = module.operands[total][0]
            axes = _reduced(module, total, summed)
            if len(axes) > 1 and prod(axes) == size:
                yield _Mean(view, number, user, summed, int(size))


def _reduced(module: Module, total: int, summed: int) -> list[int]:
    """The sizes of the axes of several elements that a sum runs over."""
    sizes = read_shape(module.shapes[summed]).dimensions
    axes = (module.attributes[total].get("dimensions") or "{}").strip("{}")
    return [sizes[int(k)] for k in axes.split(",") if k.strip() and sizes[int(k)] > 1]
