"""What a piece of graph computes, by the opcodes that tell most about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.slices import IDLE, called_only_by
from xlagraph.message import count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_NAMED = 2
PLAIN = IDLE | {"broadcast", "reshape", "bitcast", "copy", "convert", "transpose", "iota"}
"""What moves values, spreads them or makes them: it tells least of what is computed."""
MOVING = PLAIN | {
    "and", "compare", "concatenate", "dynamic-slice", "dynamic-update-slice", "pad", "select",
    "slice",
}  # fmt: skip
"""What cuts values and puts them in their places."""
COMMON = frozenset({"add", "multiply", "subtract", "divide", "negate", "compare", "and", "or"})
"""What nearly every program computes."""
RANDOM = frozenset({"rng", "rng-bit-generator"})
HEAVY = frozenset({"dot", "convolution", "gather", "scatter", "sort", "custom-call"})
"""What a pass does at least once, and an update or a metric rarely."""


def opcodes_in_words(module: Module, piece: Collection[int], other: Module) -> Message:
    """``rng-bit-generator, select and 35 more instructions``.

    Opcodes that the other module has not come first, then those that few programs have. What
    only the piece calls counts too.
    """
    counts = telling_opcodes(module, piece)
    known = frozenset(other.opcodes)

    def order(opcode: str) -> tuple[bool, ...] | tuple[object, ...]:
        is_plain, is_common = opcode in PLAIN, opcode in COMMON
        return is_plain, opcode not in RANDOM, opcode in known, is_common, -counts[opcode], opcode

    named = sorted((o for o in counts if o not in PLAIN), key=order)[:MAX_NAMED]
    named = named or sorted(counts, key=order)[:1]
    rest = counts.total() - len(named)
    if not rest:
        return join(named, MAX_NAMED, " and ")
    return say(", ".join(named), f" and {count(rest, 'more instruction')}")


def telling_opcodes(module: Module, piece: Collection[int]) -> Counter[str]:
    """How often each opcode stands in a piece and in what only the piece calls."""
    inner = (i for i in called_only_by(module, piece) if module.opcodes[i] != "parameter")
    return Counter(module.opcodes[i] for i in (*piece, *inner))
