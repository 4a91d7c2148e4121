"""Causes that are gradients which one side sends further, though both compute the same loss."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.live import mark
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.slices import IDLE, made_of
from xlagraph.cause.sources import is_forward, where
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.cotangents import affected
from xlagraph.facts.training.gradients import PRODUCTS
from xlagraph.facts.training.updates import renewed
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Code, HloName, count, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.evaluate.alike import AlikeOutputs
    from xlagraph.graph import Module
    from xlagraph.message import Side

OWN = (*BRANCHES, OTHER_OPERAND, REORDERED_OPERANDS)
"""What further terms of gradients are told as, and what the loss is written otherwise as."""
MAX_INSTRUCTIONS = 20_000
"""Instructions of both up to which they are evaluated."""
MOST = 2
"""The side on which gradients flow further computes so many times more than the other alone."""
FEWEST = 4
"""Operations that further terms of gradients have at least."""
FLOATS = ("f16[", "bf16[", "f32[", "f64[")


def with_detached(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of gradients that flow further on one side, of an equal loss.

    That no single piece need show: sums of gradients are written anew where they have more terms.
    So the values tell. Where all single numbers that depend on products have the same values on
    both sides, and tensors that the backward pass makes have not, what one side computes more on
    the way to these can only be gradients that the other side cuts, or those of a term of the loss
    that is not given out.
    """
    main = next((cause for cause in causes if cause.kind in BRANCHES), None)
    if main is None or main is not causes[0] or _is_told(main):
        return list(causes)
    side = _side(diff)
    module, lone = (diff.a, diff.removed) if side is A else (diff.b, diff.added)
    if side is None or not _has_further(module, lone) or not _same_loss(diff):
        return list(causes)
    told = _told(module, side, lone, main)
    parts = [cause for cause in causes if cause is not main and _is_part(diff, cause)]
    return merged([told if cause is main else cause for cause in causes], told, [told, *parts])


def _is_told(cause: Cause) -> bool:
    """Whether a cause has the words of a formula or a name already."""
    return any(isinstance(part, Code) for part in cause.in_short.parts)


def _side(diff: Diff) -> Side | None:
    """The side that computes clearly more alone, if any does."""
    more_a, more_b = _work(diff.a, diff.removed), _work(diff.b, diff.added)
    if max(more_a, more_b) < FEWEST:
        return None
    return A if more_a >= MOST * more_b else B if more_b >= MOST * more_a else None


def _work(module: Module, lone: Collection[int]) -> int:
    return sum(module.opcodes[i] not in IDLE for i in lone)


def _has_further(module: Module, lone: Collection[int]) -> bool:
    """Whether what a side computes alone goes into products of its backward pass.

    What only an optimizer or a clip computes comes behind these.
    """
    forward = _forward(module)
    starts = [i for i in lone if not forward[i] and module.opcodes[i] not in IDLE]
    reached = affected(module, starts, {module.entry_computation.root})
    return any(module.opcodes[i] in PRODUCTS for i in reached)


def _forward(module: Module) -> bytearray:
    """One byte an instruction: 1 where a number that is given out needs it."""
    forward = bytearray(len(module))
    mark(module, forward, [v for v in module.outputs if _is_number(module, v)])
    return forward


def _is_number(module: Module, value: int) -> bool:
    shape = module.shapes[value]
    return shape.startswith(FLOATS) and shape.partition("{")[0].endswith("[]")


def _same_loss(diff: Diff) -> bool:
    """Whether both give out the same numbers of the forward pass, and other tensors behind it."""
    a, b = diff.a, diff.b
    numbers = [k for k, v in enumerate(a.outputs) if _is_number(a, v) and _has_product(a, v)]
    if not numbers or len(a) + len(b) > MAX_INSTRUCTIONS or _renewed(a) != _renewed(b):
        return False
    found = _alike_outputs(diff)
    if found is None or not all(found.equal[k] for k in numbers):
        return False
    tensors = (k for k, v in enumerate(a.outputs) if not _is_number(a, v))
    return any(found.telling[k] for k in numbers) and any(
        found.telling[k] and not found.equal[k] and _has_product(a, a.outputs[k]) for k in tensors
    )


def _alike_outputs(diff: Diff) -> AlikeOutputs | None:
    from xlagraph.evaluate.alike import alike_outputs  # numpy is loaded where it is needed

    return alike_outputs(diff)


def _has_product(module: Module, value: int) -> bool:
    return any(module.opcodes[i] in PRODUCTS for i in made_of(module, value))


def _renewed(module: Module) -> Counter[int]:
    """The sizes of the tensors that get new values: a frozen weight gets none."""
    inputs = (p for p in renewed(module) if not module.shapes[p].endswith("[]"))
    return Counter(read_shape(module.shapes[p]).elements for p in inputs)


def _is_part(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of the loss, written otherwise, or of what goes into its gradients.

    Gradients that are given out stand in another form where they have more terms.
    """
    if cause.kind is not CLIPPING:
        return cause.kind in (*OWN, LIVE_TENSOR)
    sides = (diff.a, cause.a), (diff.b, cause.b)
    return any(_has_further(module, piece) or _is_forward(module, piece) for module, piece in sides)


def _is_forward(module: Module, piece: Collection[int]) -> bool:
    forward = _forward(module)
    return any(forward[i] for i in piece)


def _told(module: Module, side: Side, lone: Collection[int], main: Cause) -> Cause:
    """What is said of gradients that flow further, and where the other side cuts them."""
    forward = _forward(module)
    behind = {i for i in lone if not forward[i]}
    value = _parting(module, behind, forward)
    with_what = Code("jax.lax.stop_gradient" if is_jitted(module) else ".detach() or no_grad()")
    named = (
        say(" at ", HloName(module.names[value], module.opcodes[value]))
        if value is not None
        else say("")
    )
    first = say("gradients flow further in ", side, " than in ", side.other)
    short = say(first, ", which cuts them", named, ", as by ", with_what, "; the loss is the same")
    size = "" if value is None else f" {short_shape(module, value)}"
    title = say(
        first, named, size, ": ", count(len(behind), "instruction"), " more behind the loss"
    )
    lines = where(module, [value]) if value is not None else ()
    line = next((one for one in lines if is_forward(one)), None)
    alike = say(
        "the numbers that both give out are equal for equal inputs, and new values and gradients "
        "are not: the forward pass is the same, and what is sent back is not"
    )
    aside = say("a term of the loss that is not given out would look the same")
    place = main.place
    if line is not None:
        place = replace(place, line=line, stack=(), source=(), is_near=True)
    cited = (Evidence(alike, sources=lines), Evidence(aside), *main.evidence)
    return replace(
        main, kind=LONGER_BACKWARD, title=title, short=short, evidence=cited, place=place
    )


def _parting(module: Module, behind: Collection[int], forward: bytearray) -> int | None:
    """The last value of the forward pass that gradients of one side alone are multiplied with."""
    values = (
        o
        for i in behind
        for o in module.operands[i]
        if forward[o] and module.opcodes[o] not in IDLE and module.opcodes[o] != "broadcast"
    )
    return max(values, default=None)
