"""Straight-through estimators: the value of ``x + (y - x)``, of which ``y - x`` is detached."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.values.scalars import SPREADS, number_of, through, without_one
from xlagraph.message import A, B

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

ROUNDING = frozenset({
    "ceil", "clamp", "compare", "floor", "gather", "round-nearest-afz", "round-nearest-even",
    "sign",
})  # fmt: skip
"""What has no derivative, or none that reaches what it is made of."""
MAX_BACK = 60


class Estimator(NamedTuple):
    """One that one side alone has, and what the other side takes in its place."""

    side: Side
    passes: bool
    """Whether the other side takes what gradients go straight to, and not what is rounded."""


def estimator(diff: Diff, a: Collection[int], b: Collection[int]) -> Estimator | None:
    """The straight-through estimator that these instructions have on one side alone, if any.

    Where ``y`` takes its place, gradients have to go elsewhere, as they do not where nothing is
    detached; where ``x`` does, ``y`` has to be what has no derivative.
    """
    sides = ((A, diff.a, diff.match.to_b, a), (B, diff.b, diff.match.to_a, b))
    for side, module, partners, own in sides:
        other = diff.b if side is A else diff.a
        for total, x, y in _sums(module, own):
            taken = _in_place_of(module, other, partners, total)
            if _partner(module, other, partners, y) in taken and _is_rewired(diff, side, total):
                return Estimator(side, passes=False)
            if _partner(module, other, partners, x) in taken and _is_rounded(module, y, x):
                return Estimator(side, passes=True)
    return None


def _sums(module: Module, own: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """Sums ``x + (y - x)`` among these, each with ``x`` and ``y``."""
    for i in own:
        if module.opcodes[i] != "add":
            continue
        for x, difference in (module.operands[i], module.operands[i][::-1]):
            inner = _plain(module, difference)
            if module.opcodes[inner] == "subtract":
                y, out = (_plain(module, o) for o in module.operands[inner])
                if out == _plain(module, x) != y:
                    yield i, out, y


def _plain(module: Module, i: int) -> int:
    """A value without the products with 1, and the forms, that frameworks write."""
    inner = through(module, without_one(module, i), SPREADS)
    return inner if inner == i else _plain(module, inner)


def _in_place_of(module: Module, other: Module, partners: Sequence[int], total: int) -> set[int]:
    """What the other side's partners of the users of a sum take where these take the sum."""
    taken = set()
    front = [total]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            partner = partners[user]
            if partner < 0 or len(module.operands[user]) != len(other.operands[partner]):
                front += [user] if module.opcodes[user] in SPREADS else []
                continue
            places = zip(module.operands[user], other.operands[partner], strict=True)
            taken |= {_plain(other, q) for p, q in places if p == i}
    return taken


def _partner(module: Module, other: Module, partners: Sequence[int], i: int) -> int:
    partner = partners[_plain(module, i)]
    return _plain(other, partner) if partner >= 0 else -1


def _is_rewired(diff: Diff, side: Side, total: int) -> bool:
    """Whether values go other ways as well than the sum's own: gradients do.

    What follows the sum on both sides alike has no part of it. Without a cut the derivative of
    ``- x`` is there as well.
    """
    module, lone = (diff.a, diff.removed) if side is A else (diff.b, diff.added)
    if any(_is_negated(module, i) for i in lone):
        return False
    for change in diff.changes:
        if "operands" not in change.fields:
            continue
        i = change.a if side is A else change.b
        below = {through(module, o, SPREADS) for o in module.operands[i]}
        if total not in below and i != module.entry_computation.root:
            return True
    return False


def _is_negated(module: Module, i: int) -> bool:
    if module.opcodes[i] == "negate":
        return True
    numbers = [number_of(module, o) for o in module.operands[i]]
    is_product = module.opcodes[i] == "multiply"
    return is_product and any(n is not None and module.payloads[n] == "-1" for n in numbers)


def _is_rounded(module: Module, y: int, x: int) -> bool:
    """Whether a value is made of another one by an operation without a derivative."""
    front, seen = [y], {y}
    for i in front:  # grows while it is read
        called = (module.computations[c] for c in module.callees.get(i, ()))
        inside = (k for one in called for k in range(one.start, one.stop))
        if any(module.opcodes[k] in ROUNDING for k in (i, *inside)):
            return True
        for o in module.operands[i]:
            if o not in seen and o != x and len(seen) < MAX_BACK:
                seen.add(o)
                front.append(o)
    return False
