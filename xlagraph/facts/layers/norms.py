"""Norms by what they take mean and variance over, and by whether they subtract the mean."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xlagraph.facts.layers.layer import Layer, chain, reduces_by, sizes_of
from xlagraph.facts.values.ranges import axes_of
from xlagraph.facts.values.scalars import SPREADS, is_number, number_of, through

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.graph import Module

BATCH, LAYER, GROUP, RMS = "BatchNorm", "LayerNorm", "GroupNorm", "RMSNorm"
INSTANCE = "InstanceNorm"
_BATCH_NORMS = ("batch-norm-training", "batch-norm-inference")
_ROOTS = ("rsqrt", "sqrt", "power")
_FORMS = SPREADS | {"select"}
MAX_WAY = 8


def norms(module: Module) -> list[Layer]:
    """The norms of a module that are known by name."""
    found = []
    for i, opcode in enumerate(module.opcodes):
        name = _of_operation(module, i) if opcode in _BATCH_NORMS else ""
        members = _with_parts(module, i) if name else set[int]()
        if opcode in _ROOTS:
            name, members = _of_root(module, i)
        found += [Layer(name, frozenset(members))] if name else []
    return found


def _of_operation(module: Module, i: int) -> str:
    """The norm that XLA's own operation is used for: torch_xla puts rows in place of channels."""
    taken, scale = module.operands[i][:2]
    sizes = sizes_of(module, taken)
    before = module.operands[taken][0] if module.opcodes[taken] == "reshape" else taken
    rows = sizes_of(module, before)
    if before == taken or sizes[0] != 1 or module.attributes[i].get("feature_index") != "1":
        return BATCH
    if rows[0] == 1 and rows[1:2] == sizes[1:2]:
        return ""
    if module.opcodes[through(module, scale, SPREADS)] != "constant":
        return INSTANCE if [prod(rows[:2]), *rows[2:]] == sizes[1:] else BATCH
    splits = range(1, len(rows))
    is_of_rows = any([prod(rows[:k]), prod(rows[k:])] == sizes[1:] for k in splits)
    return LAYER if is_of_rows else GROUP


def _with_parts(module: Module, i: int) -> set[int]:
    """XLA's operation, what puts rows in place for it, its results, and its derivative's."""
    results = {u for u in module.users[i] if module.opcodes[u] == "get-tuple-element"}
    grads = {u for r in results for u in module.users[r] if module.opcodes[u] == "batch-norm-grad"}
    given = {u for g in grads for u in module.users[g]}
    return {i, *chain(module, module.operands[i][0], SPREADS)[:-1], *results, *grads, *given}


def _of_root(module: Module, root: int) -> tuple[str, set[int]]:
    """The norm that divides by the root of a mean of squares, or of that less a squared mean."""
    way = {root}
    value = _without_epsilon(module, module.operands[root][0], way)
    centre = _less(module, value, way)
    total = _mean_of(module, value if centre is None else centre[0], way)
    if total is None:
        return "", way
    squared = _squared(module, module.operands[total][0], way)
    axes = {*axes_of(module, total)}
    if squared is None or axes != {len(sizes_of(module, module.operands[total][0])) - 1}:
        return "", way
    is_layer = centre is not None or _is_centred(module, squared, axes)
    if centre is not None and _mean_of(module, centre[1], way) is None:
        return "", way
    return (LAYER if is_layer else RMS) if _is_scaled(module, root, squared) else "", way


def _less(module: Module, value: int, way: set[int]) -> tuple[int, int] | None:
    """A mean of squares, and the mean whose square is taken from it, at least 0."""
    if module.opcodes[value] == "maximum":
        way.add(value)
        value = _down(module, module.operands[value][0], way)
    if module.opcodes[value] != "subtract":
        return None
    way.add(value)
    mean = _squared(module, module.operands[value][1], way)
    return None if mean is None else (_down(module, module.operands[value][0], way), mean)


def _without_epsilon(module: Module, value: int, way: set[int]) -> int:
    value = _down(module, value, way)
    if module.opcodes[value] == "add":
        terms = [o for o in module.operands[value] if not is_number(module, o)]
        way.add(value)
        return _down(module, terms[0], way) if len(terms) == 1 else value
    return value


def _down(module: Module, value: int, way: set[int]) -> int:
    for _ in range(MAX_WAY):
        if module.opcodes[value] not in SPREADS:
            break
        way.add(value)
        (value,) = module.operands[value]
    return value


def _mean_of(module: Module, value: int, way: set[int]) -> int | None:
    """The sum that a mean scales by one number."""
    if module.opcodes[value] not in ("divide", "multiply"):
        return None
    way.add(value)
    for total in (_down(module, o, way) for o in module.operands[value]):
        if module.opcodes[total] == "reduce" and reduces_by(module, total, "add"):
            way.add(total)
            return total
    return None


def _squared(module: Module, value: int, way: set[int]) -> int | None:
    value = _down(module, value, way)
    x, *others = module.operands[value] or (value,)
    is_square = module.opcodes[value] == "multiply" and others == [x]
    if module.opcodes[value] == "power" and others:
        number = number_of(module, others[0])
        is_square = number is not None and module.payloads.get(number, "2") in ("2", "2.0")
    if not is_square:
        return None
    way.add(value)
    return x


def _is_scaled(module: Module, root: int, squared: int) -> bool:
    """Whether what the root is of is multiplied or divided by it, its mean taken off or not."""
    values = {squared, through(module, squared, SPREADS)}
    stack = [root]
    for i in stack:  # grows while it is read
        for user in module.users[i]:
            taken = {through(module, o, SPREADS) for o in module.operands[user]}
            taken |= {_first(module, o) for o in taken if module.opcodes[o] == "subtract"}
            is_by = module.opcodes[user] in ("multiply", "divide")
            if is_by and taken & values:
                return True
            is_on = module.opcodes[user] in _FORMS or (is_by and any(map(_is_input(module), taken)))
            if is_on and len(stack) < MAX_WAY:
                stack.append(user)
    return False


def _first(module: Module, i: int) -> int:
    return through(module, module.operands[i][0], SPREADS)


def _is_input(module: Module) -> Callable[[int], bool]:
    return lambda i: module.opcodes[i] in ("parameter", "constant")


def _is_centred(module: Module, value: int, axes: set[int]) -> bool:
    """Whether a value's own mean over these axes has been taken from it."""
    value = through(module, value, SPREADS)
    if module.opcodes[value] != "subtract":
        return False
    x, mean = module.operands[value]
    total = _mean_of(module, through(module, mean, SPREADS), set())
    if total is None or {*axes_of(module, total)} != axes:
        return False
    return through(module, module.operands[total][0], SPREADS) == through(module, x, SPREADS)
