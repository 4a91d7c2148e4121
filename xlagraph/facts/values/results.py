"""What both modules give back: the outputs that stand for each other, and the forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side as Matched
    from xlagraph.graph import Module

MAX_CLIMBED = 3
"""Operations between what differs and the new value of a parameter that it goes into."""
RESHAPED = frozenset({"bitcast", "bitcast-convert", "convert", "copy", "reshape"})
THROUGH = RESHAPED | {"broadcast"}
"""What spreads a value, or only puts it into another form."""
ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "negate"})


def forward_pass(diff: Diff) -> tuple[bytearray, bytearray]:
    """Of both modules the instructions that single numbers are made of that both give back.

    But for roots, as of the norm of gradients.
    """
    ways = bytearray(len(diff.a)), bytearray(len(diff.b))
    numbers = [pair for pair in ends(diff) if bare_shape(diff.a, pair[0]).endswith("[]")]
    pairs = [(x, y) for x, y in numbers if diff.a.opcodes[unspread(diff.a, x)] != "sqrt"]
    mark(diff.a, ways[0], [x for x, _ in pairs])
    mark(diff.b, ways[1], [y for _, y in pairs])
    return ways


def is_result(diff: Diff, x: int, y: int) -> bool:
    """Whether both give back this number, as a loss: what it is derived by follows from it."""
    return _is_given(diff.match.a, x) and _is_given(diff.match.b, y)


def _is_given(side: Matched, value: int) -> bool:
    """Whether a number is given back, or a mean that is made of it by nothing but numbers."""
    module = side.module
    for _ in range(MAX_CLIMBED):
        if not bare_shape(module, value).endswith("[]"):
            return False
        if value in side.outputs:
            return True
        users = [u for u in module.users[value] if module.opcodes[u] in ARITHMETIC | RESHAPED]
        if len(users) != 1:
            return False
        (value,) = users
    return False


def ends(diff: Diff) -> Iterator[tuple[int, int]]:
    """The outputs that stand for each other; those that are the only ones left at their place, too.

    A loss that is summed up in another way has no pair, as nothing tells that it is the same.
    """
    lone_a = {s.a for s in diff.outputs if s.b is None}
    lone_b = {s.b for s in diff.outputs if s.a is None}
    pairs = [(s.a, s.b) for s in diff.outputs]
    pairs += [(k, k) for k in lone_a & lone_b if k is not None]
    for j, k in pairs:
        if j is not None and k is not None:
            p, q = diff.a.outputs[j], diff.b.outputs[k]
            if _sizes(diff.a, p) == _sizes(diff.b, q):
                yield p, q


def _sizes(module: Module, value: int) -> str:
    """The shape of a value in whatever type: a loss may have another one."""
    return bare_shape(module, value).partition("[")[2]


def unspread(module: Module, i: int) -> int:
    """The value that was spread, or put into another form."""
    while module.opcodes[i] in THROUGH:
        i = module.operands[i][0]
    return i
