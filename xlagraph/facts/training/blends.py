"""Weights that are blended into a second set of them: a target network, an average of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.slices import exclusive_slice
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.scalars import SPREADS, is_number, through

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module

SUMS = frozenset({"add", "subtract"})
MAX_TERMS = 16


def is_blend(module: Module, parameter: int, value: int, weights: Collection[int]) -> bool:
    """Whether a value is a weighted mean of this parameter and one of these new weights."""
    return blended(module, parameter, value, weights) is not None


def blended(module: Module, parameter: int, value: int, weights: Collection[int]) -> int | None:
    """Of which of these new weights, and of this parameter, a value is a weighted mean.

    As ``p * (1 - w) + q * w`` or ``p + w * (q - p)``: the parameter is scaled in either. A step of
    an optimizer moves it by other values.
    """
    terms = _terms(module, value, {*weights} - {value})
    others = [i for i, _ in terms if i != parameter]
    is_mixed = bool(others) and len(others) < len(terms) and len({*others}) == 1
    mine = [is_scaled for i, is_scaled in terms if i == parameter]
    return others[0] if is_mixed and others[0] in weights and any(mine) else None


def averages_of(module: Module) -> dict[tuple[int, int], int]:
    """Inputs with the outputs that are their means with new values of other inputs: to these."""
    new = renewed(module)
    values = module.outputs
    olds = {values[k]: q for q, places in new.items() for k in places}
    found = {}
    for p, positions in sorted(new.items()):
        weights = {value for value, q in olds.items() if q != p}
        if len(positions) != 1 or module.shapes[p].partition("{")[0].endswith("[]"):
            continue
        (k,) = positions
        weight = blended(module, p, values[k], weights - {values[k]})
        if weight is not None and _is_kept_apart(module, p, k):
            found[p, k] = olds[weight]
    return found


def _is_kept_apart(module: Module, parameter: int, position: int) -> bool:
    """Whether all that a tensor is taken in for is its own new value."""
    alone = exclusive_slice(module, {position})
    root = module.entry_computation.root
    return is_input(module, parameter) and alone.issuperset(set(module.users[parameter]) - {root})


def _terms(module: Module, value: int, ends: Collection[int]) -> list[tuple[int, bool]]:
    """What a sum adds up, past factors that are numbers, and whether it is scaled by one."""
    found: list[tuple[int, bool]] = []
    stack = [(value, False)]
    while stack and len(found) + len(stack) < MAX_TERMS:
        i, is_scaled = stack.pop()
        i = i if i in ends else through(module, i, SPREADS - {"transpose"})
        if i in ends:
            found.append((i, is_scaled))
        elif module.opcodes[i] in SUMS:
            stack += [(o, is_scaled) for o in module.operands[i]]
        elif module.opcodes[i] in ("multiply", "divide"):
            parts = [o for o in module.operands[i] if not is_number(module, o)]
            if len(parts) != 1:
                return []
            stack.append((parts[0], True))
        else:
            found.append((i, is_scaled))
    return [] if stack else found
