"""Attention as torch's scaled_dot_product_attention computes it: rows that are hidden whole are 0.

Its softmax (`aten::_safe_softmax`) is guarded: where all scores of a row are -inf its weights are
0, which nobody writes by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message


def attention_by_hand(
    diff: Diff, piece_a: Collection[int], piece_b: Collection[int]
) -> Message | None:
    """What is said where one piece guards its softmax and the other has a plain one; else None."""
    guards = _guards(diff.a, piece_a), _guards(diff.b, piece_b)
    plain = _has_softmax(diff.a, piece_a), _has_softmax(diff.b, piece_b)
    if guards[0] == guards[1] or not all(plain):
        return None
    side = A if guards[0] else B
    told = "attention is computed by scaled_dot_product_attention in "
    return say(told, side, ", by hand in ", side.other)


def _guards(module: Module, piece: Collection[int]) -> bool:
    """Whether scores are asked whether they are -inf."""
    return any(
        module.opcodes[i] == "compare"
        and module.attributes[i].get("direction") == "EQ"
        and _is_least(module, module.operands[i][1])
        for i in piece
    )


def _is_least(module: Module, value: int) -> bool:
    value = through(module, value, SPREADS)
    return module.opcodes[value] == "constant" and module.payloads[value] == "-inf"


def _has_softmax(module: Module, piece: Collection[int]) -> bool:
    return any(module.opcodes[i] == "exponential" for i in piece)
