"""Values that are turned, or given another shape, and back again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.values.ranges import axes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Module


def without_turns(module: Module, left: Mapping[int, int]) -> dict[int, int]:
    """With transposes and reshapes of the sums that undo what was done before they were added up.

    Autograd turns a weight's gradient; a sum is kept as the old gradient lies in memory.

    Args:
        module: where they are.
        left: for each sum the value that is left of it.
    """
    found = dict(left)
    stack = sorted(left)
    for i in stack:  # grows while it is read
        for user in module.users[i]:
            known = _known(module, user, found[i])
            if known is not None:
                found[user] = known
                stack.append(user)
    return found


def _known(module: Module, move: int, source: int) -> int | None:
    """What stands before an instruction and is what it makes of another value than its own."""
    opcode = module.opcodes[move]
    if opcode == "transpose":
        if module.opcodes[source] == opcode and axes_of(module, move) == _inverse(module, source):
            return module.operands[source][0]
        order = axes_of(module, move)
        alike = [u for u in _moves(module, source, opcode) if axes_of(module, u) == order]
    elif opcode == "reshape":
        shapes = [source, *_moves(module, source, opcode)]
        while module.opcodes[source] == opcode:
            (source,) = module.operands[source]
            shapes += [source, *_moves(module, source, opcode)]
        shape = bare_shape(module, move)
        alike = [u for u in shapes if bare_shape(module, u) == shape]
    else:
        return None
    return next((u for u in alike if u < move), None)


def _moves(module: Module, source: int, opcode: str) -> list[int]:
    return [u for u in module.users[source] if module.opcodes[u] == opcode]


def _inverse(module: Module, i: int) -> list[int]:
    order = axes_of(module, i)
    return [order.index(k) for k in range(len(order))]
