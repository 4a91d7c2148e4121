"""Which instruction of A is which of B.

If the modules are the same computation, the exact walk is the pairing; otherwise the passes of
`xlagraph.diff.matcher` look for one. Every pass is linear in instructions plus operands; nothing
depends on hash seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner, Level, label_instructions
from xlagraph.canon.live import live_instructions
from xlagraph.canon.structure import (
    closed_instructions,
    number_computations,
    number_expressions,
)
from xlagraph.diff.matcher import pair_sides
from xlagraph.diff.pairing import Pass
from xlagraph.diff.same import same_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from xlagraph.graph import Module


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One module with what matching needs to know of it."""

    module: Module
    labels: Sequence[int]
    expressions: Sequence[int]
    """Expression numbers of the entry computation's live instructions, else -1."""
    live: bytearray
    closed: bytearray
    """One byte an instruction: 1 where it depends on constants alone."""
    computations: Sequence[int]
    """Structure number of every computation but the entry."""
    outputs: Mapping[int, int]
    """Instruction to the first output position that it fills."""
    interner: Interner
    """Made the labels."""

    def place(self, i: int) -> tuple[int, int]:
        """Where an instruction stands among those like it: by output, then by text."""
        return (self.outputs.get(i, len(self.outputs)), i)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A one-to-one pairing of instructions, over all computations."""

    a: Side
    b: Side
    to_b: Sequence[int]
    """For each instruction of A its partner in B, or -1."""
    to_a: Sequence[int]
    computations: Mapping[int, int]
    """Paired computations, A's number to B's."""
    ambiguous: int
    """Pairs decided by text order because nothing else told them apart."""
    exact: bool
    """The modules are the same computation; the pairing is the proof."""
    passes: bytes
    """For each instruction of A the number of the `Pass` that found its partner."""

    def made_by(self, a: int) -> Pass:
        """The pass that found the partner of an instruction of A."""
        return Pass(self.passes[a])


def prepare(module: Module, interner: Interner, level: Level = Level.PARAMETER_ORDER) -> Side:
    """Labels and numbers a module; `level` says what its labels leave out."""
    labels = label_instructions(module, interner, level)
    live = live_instructions(module)
    computations = number_computations(module, labels, interner)
    expressions = number_expressions(module, labels, live, computations, interner)
    outputs: dict[int, int] = {}
    for position, value in enumerate(module.outputs):
        outputs.setdefault(value, position)
    closed = closed_instructions(module)
    return Side(module, labels, expressions, live, closed, computations, outputs, interner)


def match_modules(a: Module, b: Module, level: Level = Level.PARAMETER_ORDER) -> Match:
    """Pairs the instructions of two modules; see the module's text for how.

    A coarser `level` looks for the pairing as if constants (or shapes) were all alike: it
    finds what stands in the same place where the default finds what has the same value.
    """
    if _comes_first(b, a):
        match = match_modules(b, a, level)
        return _mirrored(match)
    interner = Interner()
    sides = prepare(a, interner), prepare(b, interner)
    if level <= Level.PARAMETER_ORDER:
        return _match_exactly(*sides) or match_sides(*sides, interner)
    coarse = prepare(a, interner, level), prepare(b, interner, level)
    match = _match_exactly(*coarse) or match_sides(*coarse, interner)
    return replace(match, a=sides[0], b=sides[1], exact=False)


def _match_exactly(a: Side, b: Side) -> Match | None:
    """The pairing of a walk over both modules at once, if they are the same computation."""
    pairs = same_pairs(a.module, b.module, a.labels, b.labels)
    if pairs is None:
        return None
    to_b, to_a = [-1] * len(a.module), [-1] * len(b.module)
    for x, y in enumerate(pairs.instructions):
        if y >= 0 and to_a[y] < 0:
            to_b[x] = y
            to_a[y] = x
    passes = bytes([Pass.SAME if y >= 0 else Pass.NONE for y in to_b])
    return Match(a, b, to_b, to_a, pairs.computations, 0, exact=True, passes=passes)


def _mirrored(match: Match) -> Match:
    """The same pairing, seen from the other side."""
    made_by = match.passes
    return Match(
        match.b,
        match.a,
        match.to_a,
        match.to_b,
        {y: x for x, y in match.computations.items()},
        match.ambiguous,
        match.exact,
        bytes([made_by[x] if x >= 0 else Pass.NONE for x in match.to_a]),
    )


def _comes_first(a: Module, b: Module) -> bool:
    """An order of modules, so that (A, B) and (B, A) are matched as the same pair."""
    for column in _COLUMNS:
        first, second = column(a), column(b)
        if first != second:
            return bool(first < second)
    return False


_COLUMNS: tuple[Callable[[Module], Any], ...] = (
    len,
    lambda module: list(module.opcodes),
    lambda module: list(module.shapes),
    lambda module: list(module.operands),
    lambda module: sorted(module.callees.items()),
    lambda module: sorted(module.payloads.items()),
    lambda module: [attributes.text for attributes in module.attributes],
)
"""What decides, one after another."""


def match_sides(a: Side, b: Side, interner: Interner) -> Match:
    """Pairs two prepared sides that were labelled with the same interner."""
    pairing, computations = pair_sides(a, b, interner)
    return Match(
        a,
        b,
        pairing.to_b,
        pairing.to_a,
        computations,
        pairing.ambiguous,
        exact=False,
        passes=bytes(pairing.made_by),
    )
