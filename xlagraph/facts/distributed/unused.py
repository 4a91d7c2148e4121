"""Whether a step computes anything with a tensor that it takes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.distributed.buckets import BUCKETED
from xlagraph.facts.values.scalars import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.graph import Module
    from xlagraph.tensors import Tensor

_MOVES = frozenset(
    {
        "all-gather", "bitcast", "copy", "convert", "dynamic-slice", "pad", "reshape", "slice",
        "transpose",
    }
)  # fmt: skip
"""What hands a value on as it is, or a part of it: how FSDP gathers a parameter."""
_BARRIER = "opt-barrier"


def is_unused(view: SideView, tensor: Tensor) -> bool:
    """Whether the step takes this tensor in and, gathered or not, only gives it out again.

    False also where no input is known by this name.
    """
    module, known = view.module, view.context.parameters
    inputs = module.entry_computation.parameters
    mine = [k for k, one in known.items() if _is(one, tensor) and k < len(inputs)]
    return bool(mine) and all(_is_only_moved(module, inputs[k]) for k in mine)


def _is(one: Tensor, tensor: Tensor) -> bool:
    return (one.owner, one.name, one.role) == (tensor.owner, tensor.name, tensor.role)


def _is_only_moved(module: Module, start: int) -> bool:
    """Whether all that becomes of a value is itself, past barriers and with tokens added."""
    seen = {start}
    front = [start]
    while front:
        value = front.pop()
        for user in module.users[value]:
            found = _moved(module, value, user)
            if found is None:
                return False
            front += [one for one in found if one not in seen]
            seen.update(found)
    return True


def _moved(module: Module, value: int, user: int) -> Sequence[int] | None:
    """Where a value goes on in what uses it; None if it is computed with."""
    opcode, operands = module.opcodes[user], module.operands[user]
    if opcode == "tuple":
        return _behind_barrier(module, user, value)
    if opcode in _MOVES and operands[0] == value:
        return [user]
    if opcode == "add":
        others = [one for one in operands if one != value]
        return [user] if others and is_number(module, others[0]) else None
    return [] if opcode == "gather" and _is_token(module, user) else None


def _is_token(module: Module, i: int) -> bool:
    """Whether it is an element of a collective's result that is multiplied into the next token.

    torch_xla orders collectives by such products with zero (``tokens`` in `bucket_tensors`).
    """
    users = module.users[i]
    is_element = module.shapes[i].endswith("[]")
    is_result = module.opcodes[module.operands[i][0]] in BUCKETED
    return is_element and is_result and all(module.opcodes[user] == "multiply" for user in users)


def _behind_barrier(module: Module, tuple_: int, value: int) -> Sequence[int] | None:
    """The value where barriers give their tuple out again; None for another use of the tuple."""
    at = {str(k) for k, one in enumerate(module.operands[tuple_]) if one == value}
    found: list[int] = []
    for barrier in module.users[tuple_]:
        picked = module.users[barrier]
        if module.opcodes[barrier] != _BARRIER or any(
            module.opcodes[one] != "get-tuple-element" for one in picked
        ):
            return None
        found += [one for one in picked if module.attributes[one].get("index") in at]
    return found
