"""Buffers that find no output, since an input of their dimensions comes in another type.

A buffer goes to an output of its shape and type. An input that comes in another type finds none,
or one that another input had until then: that one was given away on both sides.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.diff.header import aliases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

_TYPE = re.compile(r"^\w+")


def lost_by_type(diff: Diff, inputs: Iterable[int]) -> bool:
    """Whether each of A's inputs has an output's buffer on one side alone for that reason.

    Inputs of its dimensions have other types on the other side, and there all outputs that are
    like it have the buffers of others.
    """
    retyped = retyped_dimensions(diff)
    taken_a, free_a = _buffers(diff.a)
    taken_b, free_b = _buffers(diff.b)
    found = False
    for x in inputs:
        y = diff.match.to_b[x]
        if y < 0 or (x in taken_a) == (y in taken_b):
            return False
        module, i, free = (diff.a, x, free_a) if y in taken_b else (diff.b, y, free_b)
        shape = bare_shape(module, i)
        if free[shape] or dimensions_of(shape) not in retyped:
            return False
        found = True
    return found


def retyped_dimensions(diff: Diff) -> set[str]:
    """The dimensions of inputs that come in another type, as `dimensions_of` gives them."""
    shapes_a, shapes_b = (
        Counter(bare_shape(module, p) for p in module.entry_computation.parameters)
        for module in (diff.a, diff.b)
    )
    gone, new = shapes_a - shapes_b, shapes_b - shapes_a
    return set(map(dimensions_of, gone)) & set(map(dimensions_of, new))


def dimensions_of(shape: str) -> str:
    """A shape without its type: ``[8,4]``."""
    return _TYPE.sub("", shape)


def _buffers(module: Module) -> tuple[set[int], Counter[str]]:
    """The inputs whose buffers outputs have, and how many outputs of each shape have none."""
    parameters = module.entry_computation.parameters
    every = {k: k for k in range(max(len(parameters), len(module.outputs)))}
    found = aliases(module.header_fields.get("input_output_alias", ""), every, every)
    filled = {path[0] if path else 0 for path, *_ in found}
    free = [value for k, value in enumerate(module.outputs) if k not in filled]
    taken = {parameters[n] for _, n, *_ in found if n < len(parameters)}
    return taken, Counter(bare_shape(module, value) for value in free)
