"""Sums over steps that begin with a Python number, and go on from a tensor.

Of ``total = 0`` and then ``total = total + x`` the first step adds ``x`` to a constant, and the
next to what the first has left. Python hands the second form of such a sum to torch the other way
round: ``0 + x`` is ``x + 0 * 1``, and ``total + x`` is ``total + x * 1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.facts.values.scalars import is_one

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module


class Begun(NamedTuple):
    """One sum of both sides."""

    begun: int
    """The sum where it begins."""
    start: int
    """What it begins with, made from constants."""
    added: int
    goes_on: int
    """The sum on the other side."""
    parameter: int
    """The input that it goes on from."""
    also_added: int


def sums_begun(case: Case, maker: SideView, taker: SideView) -> list[Begun]:
    """The outputs that add to a constant on one side, and to an input of its own on the other."""
    found = []
    outputs = set(maker.module.outputs)
    for pair in ((x, y) for x, y, fields in case.open_changes() if fields == ("operands",)):
        sum_, other = maker.mine(pair), taker.mine(pair)
        if sum_ in outputs and maker.module.opcodes[sum_] == "add":
            found += [
                Begun(sum_, start, added, other, parameter, also_added)
                for start, added in _summands(maker.module, sum_)
                for parameter, also_added in _summands(taker.module, other)
                if maker.matched.closed[start]
                and not maker.matched.closed[added]
                and is_input(taker.module, parameter)
                and taker.partners[parameter] < 0
                and maker.partners[added] == also_added
            ]
    return found


def _summands(module: Module, number: int) -> list[tuple[int, int]]:
    """Both summands, in either order, each without a factor of 1."""
    x, y = (_without_one(module, i) for i in module.operands[number])
    return [(x, y), (y, x)]


def _without_one(module: Module, number: int) -> int:
    if module.opcodes[number] != "multiply":
        return number
    x, y = module.operands[number]
    return x if is_one(module, y) else number
