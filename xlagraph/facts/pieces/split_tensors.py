"""Tensors that are one on one side and two on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.facts.pieces.pieces import open_edges
from xlagraph.facts.values.opcodes import PLUMBING

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module


class Split(NamedTuple):
    """A tensor of one side that is two of the other."""

    one: int
    first: int
    """Its partner on the other side."""
    second: int
    """The other side's own, used in its place somewhere."""


def split_tensors(case: Case, one: SideView, two: SideView) -> list[Split]:
    """Tensors used where the other side uses one of its own.

    Optimizer state that is known by name is no such tensor, and neither is a number.
    """
    found: dict[int, Split] = {}
    for edge in open_edges(case):
        p, q = edge.value(one), edge.value(two)
        shape = one.module.shapes[p]
        if (
            _is_entry_input(one.module, p)
            and _is_entry_input(two.module, q)
            and shape == two.module.shapes[q]
            and _is_entry_input(two.module, one.partners[p])
            and two.partners[q] < 0
            and "[]" not in shape
        ):
            first = one.partners[p]
            tensors = [two.input_tensor(k) for k in (q, first)]
            is_state = any(tensor.is_optimizer_state for tensor in tensors if tensor)
            if not is_state and _is_shared(one.module, p, two.module, (first, q)):
                found[q] = Split(p, first, q)
    return [found[q] for q in sorted(found)]


def _is_entry_input(module: Module, i: int) -> bool:
    entry = module.entry_computation
    return entry.start <= i < entry.stop and is_input(module, i)


def _is_shared(one: Module, tensor: int, two: Module, pair: tuple[int, int]) -> bool:
    """Whether one tensor serves for both, not only for another layer's: it has more uses."""
    return _uses(one, tensor) > max(_uses(two, p) for p in pair)


def _uses(module: Module, tensor: int) -> int:
    """How often a tensor is used, in whatever form it is brought first."""
    used, stack = 0, list(module.users[tensor])
    while stack:
        i = stack.pop()
        if module.opcodes[i] in PLUMBING:
            stack += module.users[i]
        else:
            used += 1
    return used
