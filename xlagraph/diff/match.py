"""Which instruction of A is which of B.

If the modules are the same computation, the exact walk is the pairing; otherwise the passes of
`xlagraph.diff.matcher` look for one. Every pass is linear in instructions plus operands; nothing
depends on hash seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import and_
from typing import TYPE_CHECKING

from xlagraph.canon.barriers import BARRIER, past_tuples
from xlagraph.canon.labels import Interner, Level, label_instructions
from xlagraph.canon.live import live_instructions
from xlagraph.canon.spelling import canonical_shape
from xlagraph.canon.structure import (
    closed_instructions,
    number_computations,
    number_expressions,
)
from xlagraph.diff.known import NO_NAMES, Identities, identities
from xlagraph.diff.matcher import pair_sides, sure_pairs
from xlagraph.diff.pairing import Pass
from xlagraph.diff.same import same_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from xlagraph.diff.known import KnownTensors
    from xlagraph.diff.same import Pairs
    from xlagraph.graph import Module

    Known = tuple[KnownTensors, KnownTensors]
    """The names recorded of A and of B."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One module with what matching needs to know of it."""

    module: Module
    plain: Sequence[int]
    """What each instruction is, inputs by their shapes alone."""
    labels: Sequence[int]
    """The same, with inputs that are known by name told apart."""
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
    identities: Identities
    """Inputs and outputs that are known by name on both sides."""

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
    known: Known
    """The recorded names that constrained it."""

    def made_by(self, a: int) -> Pass:
        """The pass that found the partner of an instruction of A."""
        return Pass(self.passes[a])


def prepare(
    module: Module,
    interner: Interner,
    plain: Sequence[int] | None = None,
    known: Identities | None = None,
) -> Side:
    """Numbers a module; `plain` labels default to those that forgive the order of parameters."""
    known = known or Identities()
    plain = plain or label_instructions(module, interner)
    labels = known.label(plain, interner)
    live = live_instructions(module)
    computations = number_computations(module, labels, interner)
    expressions = number_expressions(module, labels, live, computations, interner)
    outputs: dict[int, int] = {}
    for position, value in enumerate(module.outputs):
        outputs.setdefault(value, position)
    closed = closed_instructions(module)
    return Side(
        module, plain, labels, expressions, live, closed, computations, outputs, interner, known
    )


def match_modules(
    a: Module,
    b: Module,
    level: Level = Level.PARAMETER_ORDER,
    known: Known = (NO_NAMES, NO_NAMES),
) -> Match:
    """Pairs the instructions of two modules; see the module's text for how.

    A coarser `level` looks for the pairing as if constants (or shapes) were all alike: it
    finds what stands in the same place where the default finds what has the same value.
    Inputs and outputs that `known` names on both sides pair with each other or not at all,
    unless the modules are the same computation whatever the tensors are called.
    """
    if _comes_first(b, a):
        return _mirrored(match_modules(b, a, level, (known[1], known[0])))
    interner = Interner()
    named_a, named_b = identities(*known, interner)
    labels_a, labels_b = label_instructions(a, interner), label_instructions(b, interner)
    if level <= Level.PARAMETER_ORDER:
        pairs = same_pairs(a, b, labels_a, labels_b)
        if pairs:
            sides = prepare(a, interner, labels_a), prepare(b, interner, labels_b)
            return _exact(*sides, pairs, known)
    sides = prepare(a, interner, labels_a, named_a), prepare(b, interner, labels_b, named_b)
    if level <= Level.PARAMETER_ORDER:
        return match_sides(*sides, known)
    coarse_a, coarse_b = (label_instructions(module, interner, level) for module in (a, b))
    pairs = same_pairs(a, b, coarse_a, coarse_b)
    if pairs:
        return replace(_exact(*sides, pairs, known), exact=False)
    coarse = prepare(a, interner, coarse_a, named_a), prepare(b, interner, coarse_b, named_b)
    return replace(match_sides(*coarse, known), a=sides[0], b=sides[1])


def _exact(a: Side, b: Side, pairs: Pairs, known: Known) -> Match:
    """The pairing of a walk over both modules at once, which agreed."""
    to_b, to_a = [-1] * len(a.module), [-1] * len(b.module)
    for x, y in enumerate(pairs.instructions):
        if y >= 0 and to_a[y] < 0:
            to_b[x] = y
            to_a[y] = x
    passes = bytes([Pass.SAME if y >= 0 else Pass.NONE for y in to_b])
    return Match(a, b, to_b, to_a, pairs.computations, 0, exact=True, passes=passes, known=known)


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
        (match.known[1], match.known[0]),
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


def match_sides(a: Side, b: Side, known: Known = (NO_NAMES, NO_NAMES)) -> Match:
    """Pairs two prepared sides that were labelled with the same interner."""
    past = None
    if _has_barriers(a) or _has_barriers(b):
        past = sure_pairs(_past_tuples(a), _past_tuples(b), a.interner)
    pairing, computations = pair_sides(a, b, a.interner, past)
    return Match(
        a,
        b,
        pairing.to_b,
        pairing.to_a,
        computations,
        pairing.ambiguous,
        exact=False,
        passes=bytes(pairing.made_by),
        known=known,
    )


def _has_barriers(side: Side) -> bool:
    opcodes = side.module.opcodes
    return BARRIER in opcodes and any(map(and_, side.live, map(BARRIER.__eq__, opcodes)))


def _past_tuples(side: Side) -> Side:
    """The side as if barriers had no tuples: each value passes them alone."""
    module, depths = past_tuples(side.module)
    number = side.interner.number
    labels = list(side.plain)
    for i, depth in depths.items():
        labels[i] = number(("passed", depth, canonical_shape(module.shapes[i])))
    return prepare(module, side.interner, labels, side.identities)
