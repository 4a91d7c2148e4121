"""What a piece of graph computes, by the opcodes that tell most about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.editor import UNDONE
from xlagraph.cause.slices import IDLE, called_only_by
from xlagraph.cause.sources import bare
from xlagraph.facts.values.frozen_norms import INFERENCE, TRAINING, frozen_norms
from xlagraph.facts.values.notation import picked_by
from xlagraph.facts.values.results import forward_pass
from xlagraph.message import Operation, count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_NAMED = 2
MAX_TOLD = 40
"""Instructions of a piece that the name of one operation tells well enough."""
PLAIN = IDLE | {"broadcast", "reshape", "bitcast", "copy", "convert", "transpose", "iota"}
"""What moves values, spreads them or makes them: it tells least of what is computed."""
MOVING = PLAIN | {
    "and", "compare", "concatenate", "dynamic-slice", "dynamic-update-slice", "pad", "select",
    "slice",
}  # fmt: skip
"""What cuts values and puts them in their places."""
COMMON = frozenset({"add", "multiply", "subtract", "divide", "negate", "compare", "and", "or"})
"""What nearly every program computes."""
EVERYDAY = PLAIN | COMMON | {
    "alias", "call", "cast", "clamp", "clone", "concatenate", "convolution_overrideable",
    "device_data", "div", "dot", "expand", "fusion", "mean", "mm", "mul", "neg", "not", "pad",
    "permute", "pow", "power", "prim__Constant", "reduce", "rsqrt", "rsub", "select", "slice",
    "sqrt", "squeeze", "sub", "sum", "t", "unsqueeze", "view", "where",
}  # fmt: skip
"""What tells little of a piece by its name: torch's names and XLA's."""
RANDOM = frozenset({"rng", "rng-bit-generator"})
HEAVY = frozenset({"dot", "convolution", "gather", "scatter", "sort", "custom-call"})
"""What a pass does at least once, and an update or a metric rarely."""


def opcodes_in_words(module: Module, piece: Collection[int], other: Module) -> Message:
    """``rng-bit-generator, select and 35 more instructions``.

    Opcodes that the other module has not come first, then those that few programs have. What
    only the piece calls counts too.
    """
    counts = telling_opcodes(module, piece)
    if set(counts) == {UNDONE}:
        return say("what is compared for itself")
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


def computed_with(diff: Diff, piece_a: Collection[int], piece_b: Collection[int]) -> Message:
    """By which operations a value is computed on both sides; empty where no name tells.

    ``a value is computed with erf or with tanh``
    """
    a, b = diff.a, diff.b
    norms = {a.opcodes[i] for i in piece_a} | {b.opcodes[i] for i in piece_b}
    if not norms.isdisjoint((TRAINING, INFERENCE)) and (frozen := frozen_norms(diff)):
        return frozen
    forward = [
        {i for i in piece if way[i]}
        for piece, way in zip((piece_a, piece_b), forward_pass(diff), strict=True)
    ]
    if all(forward):  # what their derivatives are computed with follows from it
        piece_a, piece_b = forward
    one, other = named_by(a, piece_a, b, piece_b), named_by(b, piece_b, a, piece_a)
    if one and other:
        return say("a value is computed with ", one, " or with ", other)
    if one or other:
        return say("a value is computed with or without ", one or other or "")
    return say()


def in_some_steps(more: Module, piece: Collection[int], less: Module) -> Message:
    """By which operation a small piece is told that nothing else computes; empty if by none."""
    is_small = len(piece) <= MAX_TOLD
    told = named_by(more, piece, less, range(len(less))) if is_small else None
    return say(told, " is computed in some steps only") if told else say()


def named_by(
    module: Module, piece: Collection[int], other: Module, others: Collection[int]
) -> Operation | None:
    """The operation that tells a piece from the other side's, in the framework's words or XLA's.

    None where both do the same ones, or only what nearly every program does.
    """
    for names in (_operations, telling_opcodes):
        own = names(module, piece)
        known = own.keys() - EVERYDAY
        theirs = names(other, others) if known else Counter[str]()
        telling = [name for name in known if own[name] > theirs[name]]
        if telling:
            everywhere = names(other, range(len(other)))
            new = [name for name in telling if name not in everywhere]
            new = new or [name for name in telling if name not in theirs] or telling
            return Operation(max(new, key=lambda name: (own[name] - theirs[name], name)))
    return None


def _operations(module: Module, piece: Collection[int]) -> Counter[str]:
    """How often each operation of the framework made an instruction; derivatives are none."""
    found: Counter[str] = Counter()
    for i in piece:
        metadata = module.metadata(i)
        if metadata and metadata.op_type and not metadata.op_type.endswith("_backward"):
            found[bare(metadata.op_type)] += 1
    return found


def telling_opcodes(module: Module, piece: Collection[int]) -> Counter[str]:
    """How often each opcode stands in a piece and in what only the piece calls.

    What picks the largest or the smallest value is an argmax or an argmin, with all that it calls.
    """
    inner = {i for i in called_only_by(module, piece) if module.opcodes[i] != "parameter"}
    found = [*piece, *(i for i in inner if i not in piece)]
    picks = {i: f"arg{picked}" for i in found if (picked := picked_by(module, i))}
    hidden = called_only_by(module, picks) if picks else frozenset[int]()
    return Counter(picks.get(i, module.opcodes[i]) for i in found if i not in hidden)
