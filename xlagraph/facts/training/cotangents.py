"""Which values of a training step are gradients on their way from the loss to the weights.

With no metadata the graph tells them by what needs them: what the loss is computed from is the
forward pass, and what comes later and only updates need is made of gradients. Where no loss is
given out, those are known that a weight's gradient is a product of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import mark
from xlagraph.cause.editor import is_input
from xlagraph.cause.slices import IDLE
from xlagraph.facts.training.gradients import FORMS, PRODUCTS, products_of, through_forms, uses_of
from xlagraph.facts.training.updates import formula, past_barriers, renewed
from xlagraph.facts.values.vanishing import vanishing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.graph import Module

CURVED = frozenset(
    {
        "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "sqrt",
        "rsqrt", "cbrt", "power", "sine", "cosine", "tan", "atan2", "erf", "maximum", "minimum",
        "clamp", "abs", "sign", "compare", "floor", "ceil", "round-nearest-afz",
        "round-nearest-even", "is-finite", "not", "rng", "rng-bit-generator", "iota", "constant",
        "parameter", "sort",
    }
)  # fmt: skip
"""What no gradient is the result of: derivatives add, multiply, select and move."""
SPREADS = FORMS | {"broadcast"}
FLOATS = ("f16[", "bf16[", "f32[", "f64[")


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """What changed values of one side lead to."""

    weights: tuple[int, ...]
    """Inputs whose gradients take them in directly, not through a norm of all gradients."""
    forward: bytearray
    """One byte an instruction: 1 where an output that they do not reach needs it."""
    behind: bytearray
    """1 where it is computed from what the forward pass computes."""
    final: frozenset[int]
    """What the new values of weights are computed with, the last forms of gradients included."""
    gradients: frozenset[int]
    """What is linear in gradients that are known as such, whatever is given out."""
    gives_loss: bool
    """Whether a number, or one for each sample, is among those outputs."""


def reach_of(view: SideView, users: Iterable[int], sums: Mapping[int, int]) -> Reach | None:
    """What sums lead to, by their users; None if to outputs other than updates and gradients.

    `sums`: values of this side, each with the term of it that the other side has alone.

    A norm of the final gradients, or what else is computed from these alone, may be given out.
    """
    module = view.module
    new = {p: places for p, places in renewed(module).items() if _is_tensor(view, p)}
    formulas = {p: _formulas(module, places) for p, places in new.items()}
    final = set[int]().union(*formulas.values())
    starts = {*users, *sums} - {module.entry_computation.root}
    near, whole = affected(module, starts, final), affected(module, starts, set())
    shapes = {bare_shape(module, p) for p in module.entry_computation.parameters}
    shapes = {shape for shape in shapes if not shape.endswith("[]")}
    for value in module.outputs:
        is_gradient = value in final or (not new and bare_shape(module, value) in shapes)
        if value in near and not is_gradient:
            return None
    others = [v for v in module.outputs if v not in whole | final and not is_input(module, v)]
    if not new:
        others = [v for v in others if bare_shape(module, v) not in shapes]
    forward = bytearray(len(module))
    mark(module, forward, others)
    weights = tuple(p for p in sorted(formulas) if not near.isdisjoint(formulas[p]))
    numbers = [v for v in others if module.shapes[v].startswith(FLOATS)]
    gives_loss = any("," not in bare_shape(module, v) for v in numbers)
    gradients = frozenset(_gradients(module, formulas, sums))
    behind = _behind(module, forward)
    return Reach(weights, forward, behind, frozenset(final), gradients, gives_loss)


def _behind(module: Module, forward: bytearray) -> bytearray:
    """One byte an instruction: 1 where it is computed from what the forward pass computes."""
    behind = bytearray(len(module))
    entry = module.entry_computation
    for i in range(entry.start, entry.stop):
        behind[i] = any(
            behind[o] or (forward[o] and module.opcodes[o] not in IDLE) for o in module.operands[i]
        )
    return behind


def _is_tensor(view: SideView, parameter: int) -> bool:
    """Whether an input is no number that Python gives: a loss may be computed from such."""
    is_number = view.module.shapes[parameter].endswith("[]")
    return not is_number or view.input_tensor(parameter) is not None


def _formulas(module: Module, places: Iterable[int]) -> set[int]:
    """What new values are computed with element by element, gradients in any form included."""
    return set[int]().union(*(formula(module, module.outputs[k], _sources) for k in places))


def _sources(module: Module, i: int) -> Sequence[int]:
    return module.operands[i] if module.opcodes[i] in FORMS else past_barriers(module, i)


def affected(module: Module, starts: Iterable[int], ends: Collection[int]) -> set[int]:
    """What depends on some values, as far as the first of `ends`, these included."""
    found, stack = set(starts), list(starts)
    while stack:
        i = stack.pop()
        if i not in ends:
            fresh = [u for u in module.users[i] if u not in found]
            found.update(fresh)
            stack += fresh
    return found


def gradients_taken(view: SideView, piece: Collection[int], reach: Reach) -> set[int]:
    """What a piece takes in that both sides compute as gradients on their way."""
    module, partners = view.module, view.partners
    taken = {o for i in piece for o in module.operands[i] if partners[o] >= 0}
    return {
        o
        for o in taken
        if is_gradient(module, o, reach) or leaves(module, o, piece, reach.forward) is not None
    }


def is_gradient(module: Module, value: int, reach: Reach) -> bool:
    """Whether a value is one of the backward pass, on the way to a weight or at its end."""
    plain = through_forms(module, value)
    is_curved = module.opcodes[plain] in CURVED
    if is_curved or reach.forward[plain] or not module.shapes[plain].startswith(FLOATS):
        return False
    if plain in reach.gradients:
        return True
    return reach.gives_loss and bool(reach.behind[plain]) and not _scales(module, plain, reach)


def _scales(module: Module, value: int, reach: Reach) -> bool:
    """Whether a value is multiplied with a gradient: it is a derivative on the way then."""
    return any(
        not reach.gradients.isdisjoint(_factors(module, product) - {value})
        for product in _factor_of(module, value)
    )


def _gradients(
    module: Module, formulas: Mapping[int, set[int]], sums: Mapping[int, int]
) -> set[int]:
    """What is linear in gradients that a weight's own is a product of, whatever is given out.

    Of that product's factors the gradient is the one that is computed after the weight's own
    product with the other one.
    """
    found = set[int]()
    for weight, members in formulas.items():
        own = products_of(module, weight)
        for product in (i for i in members if module.opcodes[i] in PRODUCTS):
            one, other = (through_forms(module, o) for o in module.operands[product])
            for gradient, x in ((one, other), (other, one)):
                if any(p < gradient and x in _factors(module, p) for p in own):
                    found.add(gradient)
    entry = module.entry_computation
    span = range(entry.start, entry.stop)
    found |= vanishing(module, span, found)
    found |= {value for value, old in sums.items() if old in found}
    return found | vanishing(module, span, found)


def leaves(module: Module, gradient: int, piece: Collection[int], forward: bytearray) -> int | None:
    """The forward value that a gradient goes on to in this piece: the other factor of what it left.

    The gradient of x * w is multiplied with w to go on to x, and with x to go on to w.
    """
    uses = [u for u in uses_of(module, gradient) if _multiplies(module, u)]
    for user in (u for u in uses if u in piece):
        for w in _factors(module, user) - {_source(module, gradient)}:
            for back in (u for u in uses if u not in piece and not forward[u]):
                for x in _factors(module, back) - {_source(module, gradient)}:
                    if forward[x] and _has_product(module, x, w, forward):
                        return x
    return None


def _multiplies(module: Module, i: int) -> bool:
    return module.opcodes[i] in PRODUCTS or module.opcodes[i] == "multiply"


def _has_product(module: Module, x: int, w: int, forward: bytearray) -> bool:
    """Whether the forward pass multiplies two values."""
    return any(forward[u] and w in _factors(module, u) for u in _factor_of(module, x))


def _factors(module: Module, product: int) -> set[int]:
    return {_source(module, o) for o in module.operands[product]}


def _source(module: Module, value: int) -> int:
    """The value that this one is, in another form or spread."""
    while module.opcodes[value] in SPREADS:
        (value,) = module.operands[value]
    return value


def _factor_of(module: Module, value: int) -> list[int]:
    """The products that a value is a factor of, in whatever form or spread."""
    found: list[int] = []
    stack = [_source(module, value)]
    for i in stack:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in SPREADS:
                stack.append(user)
            elif _multiplies(module, user):
                found.append(user)
    return found
