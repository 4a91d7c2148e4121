"""Weights that are blended into a second set of them: a target network, an average of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.scalars import SPREADS, is_number, through

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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


def blends_old(module: Module, state: Sequence[tuple[int, int]]) -> bool:
    """Whether all these parameters blend in weights as they came in, which the module renews.

    state: each with the position of its new value.
    """
    moved = {p for p, _ in state}
    weights = {p for p in renewed(module) if p not in moved}
    return all(is_blend(module, p, module.outputs[k], weights) for p, k in state)


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
