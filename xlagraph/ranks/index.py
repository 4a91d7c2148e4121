"""Graphs of ranks that differ only by each rank's own number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.graph import Module

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MIN_RANKS = 3
"""Two numbers are always in line."""
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Numbers:
    """What ranks have each in its own way."""

    instructions: tuple[int, ...]
    """Of each of the modules."""
    first: float
    """The number on the lowest rank, at the first place."""
    step: float
    """What it grows by from rank to rank."""


def own_numbers(modules: Iterable[tuple[int, Module]]) -> Numbers | None:
    """What differs between the modules of ranks, if that is ``a + b * rank`` at every place.

    The modules are compared instruction by instruction with the first, as programs that were
    traced alike are; None where they are not the same but for such numbers. One is held at a time.

    Args:
        modules: ranks, ascending, each with its module.
    """
    found = iter(modules)
    lowest, first = next(found)
    base = _texts(first)
    others: dict[int, dict[int, str]] = {}
    for rank, module in found:
        if _frame(module) != _frame(first):
            return None
        others[rank] = {k: t for k, t in enumerate(_texts(module)) if t != base[k]}
    if len(others) + 1 < MIN_RANKS:
        return None
    places = sorted({place for mine in others.values() for place in mine})
    lines: list[tuple[float, float]] = []
    for place in places:
        texts = {rank: mine.get(place, base[place]) for rank, mine in others.items()}
        line = _in_line({lowest: base[place], **texts})
        if line is None:
            return None
        lines.append(line)
    return Numbers(tuple(places), *lines[0]) if lines else None


def _frame(module: Module) -> tuple[object, ...]:
    """What has to be equal: all but literals, numbers of parameters and attributes."""
    return module.opcodes, module.shapes, module.operands, module.header


def _texts(module: Module) -> list[str]:
    """What an instruction says of itself: its literal or number, and its attributes."""
    return [
        f"{module.payloads.get(i, '')} {attributes.items}"
        for i, attributes in enumerate(module.attributes)
    ]


def _in_line(texts: Mapping[int, str]) -> tuple[float, float] | None:
    """Start and step of the first number that differs, if all that differ lie on lines."""
    if len({_NUMBER.sub("#", text) for text in texts.values()}) > 1:
        return None
    columns = zip(*(map(float, _NUMBER.findall(text)) for text in texts.values()), strict=True)
    ranks = list(texts)
    found: tuple[float, float] | None = None
    for column in columns:
        step = (column[1] - column[0]) / (ranks[1] - ranks[0])
        for rank, value in zip(ranks, column, strict=True):
            wanted = column[0] + step * (rank - ranks[0])
            if abs(value - wanted) > TOLERANCE * max(1.0, abs(value)):
                return None
        if step and found is None:
            found = column[0], step
    return found
