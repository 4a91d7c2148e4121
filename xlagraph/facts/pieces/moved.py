"""An operation that stands before others on one side, and behind the same ones on the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.facts.values.telling import PLAIN
from xlagraph.facts.values.terms import COMMUTATIVE
from xlagraph.message import A, B

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

MAX_BETWEEN = 64
"""Instructions, with all that they take in, between two values."""


class Moved(NamedTuple):
    """An operation that others stand behind on one side, and before on the other."""

    first: Side
    """The side where it comes before the others."""
    a: int
    b: int
    others_a: frozenset[int]
    others_b: frozenset[int]


class _Sides(NamedTuple):
    """Two modules, with what each instruction of one is in the other."""

    one: Module
    other: Module
    to_other: Sequence[int]
    to_one: Sequence[int]


def moved_operations(diff: Diff, a: Collection[int], b: Collection[int]) -> list[Moved]:
    """What moved past other operations, of what differs in A and in B and what stands beside it.

    One side computes ``others(operation(x))`` where the other computes ``operation(others(x))``;
    what takes the result is the same on both. Terms or factors in another order are none.
    """
    to_b, to_a = diff.match.to_b, diff.match.to_a
    sides = _Sides(diff.a, diff.b, to_b, to_a), _Sides(diff.b, diff.a, to_a, to_b)
    in_a = ((x, _passed(sides[0], x, to_b[x])) for x in _beside(diff.a, a))
    in_b = ((y, _passed(sides[1], y, to_a[y])) for y in _beside(diff.b, b))
    return [
        *(Moved(A, x, to_b[x], *past) for x, past in in_a if past),
        *(Moved(B, to_a[y], y, *past[::-1]) for y, past in in_b if past),
    ]


def _beside(module: Module, own: Collection[int]) -> list[int]:
    """What computes something of what differs, or what that is computed of."""
    entry = module.entry_computation
    near = {*own}
    for i in own:
        near.update(through(module, o, SPREADS) for o in module.operands[i])
        near.update(takers(module, i))
    inside = (i for i in near if entry.start <= i < entry.stop)
    return sorted(i for i in inside if module.opcodes[i] not in PLAIN and module.operands[i])


def takers(module: Module, value: int) -> Iterator[int]:
    """What computes something of a value, in whichever form it takes it."""
    front = [value]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in SPREADS:
                front.append(user)
            yield user


def _passed(sides: _Sides, x: int, y: int) -> tuple[frozenset[int], frozenset[int]] | None:
    """What stands behind an operation of one module, and before its partner in the other."""
    one, other = sides.one, sides.other
    if y < 0 or len(one.operands[x]) != len(other.operands[y]):
        return None
    behind = list(_behind(sides, x, y))
    for p, q in zip(one.operands[x], other.operands[y], strict=True) if behind else ():
        given = sides.to_other[through(one, p, SPREADS)]
        taken = through(other, q, SPREADS)
        if given in (-1, taken):
            continue
        before = _between(other, given, taken)
        kinds = _kinds(other, before)
        is_order = kinds.keys() <= {one.opcodes[x]} & COMMUTATIVE
        for others in behind:
            if not is_order and _kinds(one, others) == kinds:
                return others, before
    return None


def _behind(sides: _Sides, x: int, y: int) -> Iterator[frozenset[int]]:
    """What lies between an operation and what its partner's result is taken by at once."""
    one, other = sides.one, sides.other
    for user in takers(other, y):
        mate = sides.to_one[user]
        if mate < 0 or len(one.operands[mate]) != len(other.operands[user]):
            continue
        for p, q in zip(one.operands[mate], other.operands[user], strict=True):
            last = through(one, p, SPREADS)
            if through(other, q, SPREADS) == y and last != x:
                yield _between(one, x, last)


def _between(module: Module, first: int, last: int) -> frozenset[int]:
    """What a value passes through on its way to another one, with that; empty without a way."""
    entry = module.entry_computation
    seen, front = {last}, [last]
    for i in front:  # grows while it is read
        operands = [o for o in module.operands[i] if o > first and not is_input(module, o)]
        new = dict.fromkeys(o for o in operands if o not in seen)
        seen.update(new)
        front.extend(new)
        if len(front) > MAX_BETWEEN or i < entry.start:
            return frozenset()
    found = {first}
    for i in sorted(seen):
        if not found.isdisjoint(module.operands[i]):
            found.add(i)
    return frozenset(found - {first}) if last in found else frozenset()


def _kinds(module: Module, instructions: Collection[int]) -> Counter[str]:
    return Counter(o for i in instructions if (o := module.opcodes[i]) not in PLAIN)
