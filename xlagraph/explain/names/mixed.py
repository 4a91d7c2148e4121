"""Causes that are mixup: one side adds a batch to itself in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.values.reductions import THROUGH
from xlagraph.facts.values.scalars import through
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

MIXED = "A batch is mixed with itself"
"""How the words begin of mixup."""
MAX_FACTORS = 12
_REORDERS = frozenset({"gather", "reverse"})
"""What puts the rows of its first operand into another order."""


def with_mixed(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those in which one side alone mixes a batch with itself as that, and as one."""
    found = [(cause, _side(diff, cause)) for cause in causes]
    mixing = [(cause, side) for cause, side in found if side]
    if not mixing:
        return list(causes)
    main, side = mixing[0]
    own = [cause for cause, one in mixing if one is side]
    short = say(MIXED, " in another order, as by mixup, in ", side, " only")
    return merged(causes, main, own, short=short)


def _side(diff: Diff, cause: Cause) -> Side | None:
    """The side that mixes a batch in a piece that the other has not."""
    if not cause.proved or cause.kind not in BRANCHES:
        return None
    mixes = _mixes(diff.a, cause.a), _mixes(diff.b, cause.b)
    if mixes[0] == mixes[1]:
        return None
    return A if mixes[0] else B


def _mixes(module: Module, piece: Collection[int]) -> bool:
    """Whether an instruction of a piece adds a part of an input to a part in another order."""
    for i in piece:
        if module.opcodes[i] == "add":
            one, other = (_scaled(module, o) for o in module.operands[i])
            if any(_is_reordered(module, x, y) for x in one for y in other):
                return True
    return False


def _scaled(module: Module, i: int) -> list[int]:
    """What numbers multiply, without its forms; nothing where no product is added."""
    found: list[int] = []
    pending = [through(module, i, THROUGH)]
    for value in pending:  # grows while it is read
        if module.opcodes[value] == "multiply" and len(pending) < MAX_FACTORS:
            pending += (through(module, o, THROUGH) for o in module.operands[value])
        elif value != pending[0]:
            found.append(value)
    return found


def _is_reordered(module: Module, x: int, y: int) -> bool:
    """Whether one of two values is an input of two axes, or more, the other its rows reordered."""
    return any(
        module.opcodes[whole] == "parameter"
        and module.shapes[whole].partition("]")[0].count(",") > 0
        and module.opcodes[rows] in _REORDERS
        and through(module, module.operands[rows][0], THROUGH) == whole
        for whole, rows in ((x, y), (y, x))
    )
