"""Which tensors a step updates: outputs computed element by element from a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.bucket_rows import ELEMENTWISE
from xlagraph.cause.draft import is_input
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from xlagraph.graph import Module

FORMULA = ELEMENTWISE | {"convert", "copy", "bitcast", "select", "clamp"}
"""What an optimizer or an average makes a new value of a tensor with."""


def updates(module: Module) -> dict[int, list[int]]:
    """For each parameter that the module updates, the positions of its new values.

    A new value has the parameter's shape and is computed from it element by element; so a
    gradient is none, and a moving average of a weight is one of both. The parameter itself,
    given back as it came, is no new value.
    """
    found: dict[int, list[int]] = {}
    for k, value in enumerate(output_values(module)):
        for parameter in _sources(module, value):
            if module.shapes[parameter] == module.shapes[value]:
                found.setdefault(parameter, []).append(k)
    return found


def _sources(module: Module, value: int) -> list[int]:
    """The parameters that an element of the value depends on by the same element alone."""
    found, seen, stack = [], {value}, [value]
    while stack:
        i = stack.pop()
        if i != value and is_input(module, i):
            found.append(i)
        elif module.opcodes[i] in FORMULA:
            stack += [o for o in module.operands[i] if o not in seen]
            seen.update(module.operands[i])
    return sorted(found)
