"""Exact: expressions that occur once in each module are anchors, with all that is below them.

Inputs of one shape are alike in an expression, so that `a * b` and `a * a` are: which input is
which is decided by all anchors together, for the pair that stands at most places first.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation


def pair_anchors(pairing: Pairing, ca: Computation, cb: Computation) -> None:
    """Pairs instructions whose expression number occurs once on each side, and all below them."""
    numbers_a, numbers_b = pairing.a.expressions, pairing.b.expressions
    count_a = Counter(numbers_a[ca.start : ca.stop])
    count_b = Counter(numbers_b[cb.start : cb.stop])
    place_b = {numbers_b[y]: y for y in range(cb.start, cb.stop)}
    closed = pairing.a.closed
    to_b, to_a = pairing.to_b, pairing.to_a
    inputs: Counter[tuple[int, int]] = Counter()
    for x in range(ca.stop - 1, ca.start - 1, -1):
        number = numbers_a[x]
        if number < 0 or to_b[x] >= 0 or count_a[number] != 1 or count_b[number] != 1:
            continue
        if closed[x]:
            continue  # identified by its users: the same number may mean something else
        y = place_b[number]
        if to_a[y] < 0:
            _pair_below(pairing, x, y, numbers_a, numbers_b, inputs)
    ranked = sorted(inputs, key=lambda pair: (-inputs[pair], not _is_one_number(pairing, *pair)))
    for x, y in ranked:
        if to_b[x] < 0 and to_a[y] < 0:
            _take(pairing, x, y)
    for x, y in ranked:
        if to_b[x] != y and _has_free(pairing, cb, x):
            _part_products(pairing, x, y)


def _is_one_number(pairing: Pairing, x: int, y: int) -> bool:
    """Whether two inputs have one number, which tells them where their places do not."""
    return pairing.a.module.payloads[x] == pairing.b.module.payloads[y]


def _has_free(pairing: Pairing, cb: Computation, x: int) -> bool:
    """Whether an input that is a number is free, and so is another one on the other side.

    Else it may well stand for a number that is equal to it: equal ones are one input.
    """
    a, b = pairing.a, pairing.b
    return (
        a.module.shapes[x].endswith("[]")
        and pairing.to_b[x] < 0
        and any(pairing.to_a[q] < 0 and b.labels[q] == a.labels[x] for q in cb.parameters)
    )


def _part_products(pairing: Pairing, x: int, y: int) -> None:
    """Parts products with two numbers that are not the same, where nothing further is alike.

    ``m * rate`` and ``m * momentum`` are one expression, as inputs of one shape are alike in it.
    """
    a, b, to_b = pairing.a.module, pairing.b.module, pairing.to_b
    for spread in a.users[x]:
        if a.opcodes[spread] != "broadcast" or to_b[spread] not in b.users[y]:
            continue
        products = [u for u in a.users[spread] if to_b[u] >= 0]
        if not any(to_b[above] in b.users[to_b[u]] for u in products for above in a.users[u]):
            for part in (*products, spread):
                pairing.part(part)


def _pair_below(
    pairing: Pairing,
    x: int,
    y: int,
    numbers_a: Sequence[int],
    numbers_b: Sequence[int],
    inputs: Counter[tuple[int, int]],
) -> None:
    """Pairs two equal expressions; `inputs` counts which inputs stand at the same places."""
    a, b = pairing.a.module.operands, pairing.b.module.operands
    opcodes = pairing.a.module.opcodes
    to_b, to_a = pairing.to_b, pairing.to_a
    stack_a, stack_b = [x], [y]
    while stack_a:
        x, y = stack_a.pop(), stack_b.pop()
        if to_b[x] >= 0 or to_a[y] >= 0 or numbers_a[x] != numbers_b[y]:
            continue
        if opcodes[x] == "parameter":
            inputs[x, y] += 1
            continue
        _take(pairing, x, y)
        stack_a += a[x]
        stack_b += b[y]


def _take(pairing: Pairing, x: int, y: int) -> None:
    pairing.to_b[x] = y
    pairing.to_a[y] = x
    pairing.made_by[x] = Pass.ANCHOR
    pairing.queue.append((x, y))
