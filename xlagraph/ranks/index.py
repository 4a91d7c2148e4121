"""Graphs of ranks that differ only by each rank's own number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def own_numbers(modules: Mapping[int, Module]) -> Numbers | None:
    """What differs between the modules of ranks, if that is ``a + b * rank`` at every place.

    The modules are compared instruction by instruction, as programs that were traced alike are;
    None where they are not the same but for such numbers.
    """
    ranks = sorted(modules)
    if len(ranks) < MIN_RANKS:
        return None
    first = modules[ranks[0]]
    alike = (first.names, first.opcodes, first.shapes, first.operands, first.header)
    for rank in ranks[1:]:
        other = modules[rank]
        if alike[1:] != (other.opcodes, other.shapes, other.operands, other.header):
            return None
    texts = {rank: _texts(module) for rank, module in modules.items()}
    places: list[int] = []
    lines: list[tuple[float, float]] = []
    for i, text in enumerate(texts[ranks[0]]):
        here = {rank: texts[rank][i] for rank in ranks}
        if all(other == text for other in here.values()):
            continue
        found = _in_line(here)
        if found is None:
            return None
        places.append(i)
        lines.append(found)
    return Numbers(tuple(places), *lines[0]) if lines else None


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
