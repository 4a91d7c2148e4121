"""The losses that torch has names for, known by their values however they are written."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations, product
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.slices import called_only_by
from xlagraph.facts.training.losses import way_to_loss
from xlagraph.facts.values.evaluated import FORMS, MAX_NODES, OPENED, are_equal, function, points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xlagraph.facts.values.evaluated import Function, Key
    from xlagraph.graph import Module

FAR = 9.0
"""A distance at which a loss that is round near zero is a straight line."""
LARGEST = 0.5 * FAR
"""A loss that is round further out is not told from a square there."""
FLOATS = ("f16[", "bf16[", "f32[", "f64[")
_OPENED = OPENED | FORMS | {"constant", "get-tuple-element"}
MAX_NUMBERS = 3
TAKEN_FOR = (0.5, 0.371, 0.5 * 0.371, 0.25)
"""What a Python number is taken for: the factor of many losses, a setting or its half.

The last is for a setting of 0.5, which is one parameter with the factor.
"""
_Loss = tuple[str, "Callable[[float, float], float]"]


class _Family(NamedTuple):
    """A family of losses: its names and the setting that one of it has."""

    name: str
    of: Callable[[float, float, float], float]
    """Of a prediction, a target and the setting."""
    setting: Callable[[Callable[[float, float], float]], float]
    """The setting of the one that has these values, if any has."""


def _cross_entropy(x: float, t: float) -> float:
    return max(x, 0.0) - x * t + math.log1p(math.exp(-abs(x)))


def _of_probabilities(p: float, t: float) -> float:
    return -(t * max(math.log(p), -100.0) + (1 - t) * max(math.log1p(-p), -100.0))


def _focal(x: float, t: float, gamma: float) -> float:
    p = 1 / (1 + math.exp(-x))
    return float(_cross_entropy(x, t) * abs(1 - (p * t + (1 - p) * (1 - t))) ** gamma)


def _smooth(d: float, beta: float) -> float:
    return 0.5 * d * d / beta if abs(d) < beta else abs(d) - 0.5 * beta


def _of_difference(of: Callable[[float], float]) -> Callable[[float, float], float]:
    return lambda x, y: of(x - y)


PLAIN: Mapping[str, Callable[[float, float], float]] = {
    "mse_loss(x, y)": _of_difference(lambda d: d * d),
    "l1_loss(x, y)": _of_difference(abs),
    "log(cosh(x - y))": _of_difference(lambda d: math.log(math.cosh(d))),
    "binary_cross_entropy_with_logits(x, y)": _cross_entropy,
    "binary_cross_entropy(x, y)": _of_probabilities,
    "poisson_nll_loss(x, y)": lambda x, y: math.exp(x) - y * x,
    "soft_margin_loss(x, y)": lambda x, y: math.log1p(math.exp(-x * y)),
    "logsigmoid(x * y)": lambda x, y: -math.log1p(math.exp(-x * y)),
    "logsigmoid(x)": lambda x, _: -math.log1p(math.exp(-x)),
    "relu(1 - x * y)": lambda x, y: max(1 - x * y, 0.0),
}
"""Losses of a prediction x and a target y."""
SET: Sequence[_Family] = (
    _Family(
        "smooth_l1_loss(x, y, beta={})",
        lambda x, y, beta: _smooth(x - y, beta),
        lambda of: 2 * (FAR - of(FAR, 0.0)),
    ),
    _Family(
        "huber_loss(x, y, delta={})",
        lambda x, y, delta: delta * _smooth(x - y, delta),
        lambda of: of(FAR, 0.0) - of(FAR - 1, 0.0),
    ),
    _Family(
        "sqrt((x - y)**2 + {})",
        lambda x, y, least: math.sqrt((x - y) ** 2 + least),
        lambda of: of(0.0, 0.0) ** 2,
    ),
    _Family(
        "sigmoid_focal_loss(x, y, alpha=-1, gamma={})",
        _focal,
        lambda of: math.log2(_cross_entropy(0.0, 1.0) / of(0.0, 1.0)),
    ),
)
"""Losses with a setting."""


class NamedLoss(NamedTuple):
    """What a loss is summed up of."""

    name: str
    """Its name in torch, of a prediction x and a target y."""
    given: frozenset[int]
    """The prediction and the target, or their difference."""


def loss_by_name(module: Module) -> NamedLoss | None:
    """The loss of a training step; None if it is not known by name, or a sum of several."""
    summed = [module.operands[i][0] for i in way_to_loss(module) if module.opcodes[i] == "reduce"]
    found = [one for one in (_named(module, i) for i in summed) if one]
    return found[0] if len({one.name for one in found}) == 1 else None


def _named(module: Module, summed: int) -> NamedLoss | None:
    """A value as a loss of the first value from which it is one."""
    region = _region(module, summed)
    leaves = {i for i in region if not _is_opened(module, i)}
    for x in sorted(i for i in region - {summed} if module.shapes[i].startswith(FLOATS)):
        of = function(module, summed, {i: i for i in {*leaves, x}})
        name = _name(module, of) if of and x in of.variables.values() else ""
        if of and name:
            return NamedLoss(name, frozenset(of.variables.values()))
    return None


def of_loss(module: Module, loss: NamedLoss) -> set[int]:
    """What is computed number by number from what a loss is given: itself, and its derivative."""
    found = way_to_loss(module) | loss.given
    entry = module.entry_computation
    for i in range(entry.start, entry.stop):
        operands = module.operands[i]
        if _is_opened(module, i) and found.issuperset(operands):
            found.add(i)
    return found.union(called_only_by(module, found))


def _is_opened(module: Module, i: int) -> bool:
    opcode = module.opcodes[i]
    if opcode == "convert" and not module.shapes[module.operands[i][0]].startswith(FLOATS):
        return False
    if opcode == "call":
        (called,) = module.callees[i]
        inside = module.computations[called]
        return all(
            module.opcodes[k] in ("parameter", "tuple") or _is_opened(module, k)
            for k in range(inside.start, inside.stop)
        )
    return opcode in _OPENED


def _region(module: Module, summed: int) -> set[int]:
    """What a value is computed from number by number, with the values at the ends of that."""
    found, stack = {summed}, [summed]
    while stack and len(found) < MAX_NODES:
        i = stack.pop()
        below = {*module.operands[i]} - found if _is_opened(module, i) else set()
        found |= below
        stack += sorted(below)
    return found


def _name(module: Module, of: Function) -> str:
    """The name of a function of one number, their difference, or of two in either order.

    Python numbers that are parameters are a factor, or a setting that is not known.
    """
    numbers = sorted(k for k, i in of.variables.items() if bare_shape(module, i).endswith("[]"))
    keys = sorted({*of.variables} - {*numbers})
    is_known = all(module.shapes[i].startswith(FLOATS) for i in of.variables.values())
    if not (is_known and of.operations and len(keys) in (1, 2) and len(numbers) <= MAX_NUMBERS):
        return ""
    for values in product(TAKEN_FOR, repeat=len(numbers)):
        given = dict(zip(numbers, values, strict=True))
        for order in permutations(keys):
            found = _name_of(of, order, given)
            if found:
                return found
    return ""


def _name_of(of: Function, keys: Sequence[Key], given: Mapping[Key, float]) -> str:
    def at(*numbers: float) -> float:
        return of.at({**given, **dict(zip(keys, numbers, strict=False))})

    tried = [[point[key] for key in keys] for point in points(keys)]
    row = [at(*numbers) for numbers in tried]
    for name, known in _candidates(at, is_told=not given):
        if are_equal(row, [_defined(known, numbers) for numbers in tried]):
            return name
    return ""


def _candidates(of: Callable[[float, float], float], *, is_told: bool) -> Iterator[_Loss]:
    yield from PLAIN.items()
    for family in SET:
        try:
            setting = family.setting(of)
        except (ArithmeticError, ValueError):
            continue
        if 0 < setting < LARGEST:
            rounded = float(f"{setting:.5g}")
            told = f"{rounded:g}" if is_told else "..."
            yield family.name.format(told), partial(_with_setting, family, rounded)


def _with_setting(family: _Family, setting: float, x: float, y: float) -> float:
    return family.of(x, y, setting)


def _defined(of: Callable[[float, float], float], numbers: Sequence[float]) -> float:
    x, y = numbers if len(numbers) == 2 else (*numbers, 0.0)
    try:
        return of(x, y)
    except (ArithmeticError, ValueError):
        return math.nan
