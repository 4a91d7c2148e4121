"""Which inputs have to be positive for a module's outputs to be numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.graph import Module

_NEEDS = frozenset({"sqrt", "rsqrt", "log", "log-plus-one", "power"})
_KEEPS = frozenset(
    (
        *("add", "multiply", "divide", "convert", "copy", "broadcast", "reshape", "transpose"),
        *("slice", "concatenate", "select", "maximum"),
    )
)
"""What leaves a sign as it is, as a rule."""


def positive_inputs(module: Module) -> frozenset[int]:
    """The entry's parameters, by number, that reach a root or a logarithm with their sign.

    Such as the second moments of Adam: with signs, all that depends on them is no number, and
    says nothing of the rest. A square has no sign to keep.
    """
    entry = module.entry_computation
    reach: set[int] = set()
    for i in reversed(range(entry.start, entry.stop)):
        operands = module.operands[i]
        if module.opcodes[i] in _NEEDS:
            reach.update(operands[:1])
        elif i in reach and module.opcodes[i] in _KEEPS and len({*operands}) == len(operands):
            reach.update(operands)
    return frozenset(k for k, p in enumerate(entry.parameters) if p in reach)
