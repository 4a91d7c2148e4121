"""Weights that two versions of a program hold in other tensors: packed, split or turned."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.updates import renewed
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Code, join, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE, SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

OWN = (ADDED_INPUT, INPUT_SHAPE, OPTIMIZER_STATE, SKIPPED_BLOCK)
"""What weights in other tensors are told as where nothing says so."""
MAX_SHAPES = 3
FLOATS = ("f16[", "bf16[", "f32[", "f64[")
SAME_NUMBERS = "the weights are kept in other tensors, of as many numbers: "
FIX = say(
    "Both may compute the same: hand one the other's weights in its own form, and compare what "
    "they give. Inputs are paired one by one here, which cannot tell."
)
SHORT_FIX = say("Give one the other's weights in its form, and compare the outputs.")


def with_packed(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; first, as one, those of weights that the other side keeps in other tensors.

    Both take in as many numbers: with a part of the model that one side leaves out, or layers of
    another size, they would not.
    """
    parts = [cause for cause in causes if cause.kind in OWN]
    a, b = _weights(diff.a), _weights(diff.b)
    alone = a - b, b - a
    one, other = (_numbers(shapes) for shapes in alone)
    if not parts or not one or one != other:
        return list(causes)
    main = parts[0]
    first = say(SAME_NUMBERS, _shapes(alone[0]), " became ", _shapes(alone[1]))
    told = replace(
        main,
        kind=INPUT_SHAPE,
        title=first,
        short=first,
        fix=FIX,
        short_fix=SHORT_FIX,
        evidence=(Evidence(first), *main.evidence),
    )
    others = [cause for cause in causes if cause not in parts]
    return merged([told, *others], told, [told, *parts[1:]])


def _weights(module: Module) -> Counter[str]:
    """The shapes of the tensors that get new values: batches come in other sizes as well."""
    shapes = (bare_shape(module, p) for p in renewed(module))
    return Counter(one for one in shapes if one.startswith(FLOATS) and not one.endswith("[]"))


def _numbers(shapes: Counter[str]) -> int:
    return sum(read_shape(shape).elements for shape in shapes.elements())


def _shapes(shapes: Counter[str]) -> Message:
    told = [Code(f"{n} x {shape}" if n > 1 else shape) for shape, n in shapes.most_common()]
    return join(told, MAX_SHAPES)
