"""Which tensors a step updates, which it makes anew, and what it computes where they are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.diff.header import given_away
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges
from xlagraph.facts.values.opcodes import ELEMENTWISE
from xlagraph.facts.values.scalars import without_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.graph import Module
    from xlagraph.tensors import Tensor

    Sources = Callable[[Module, int], Sequence[int]]

FORMULA = ELEMENTWISE | {"convert", "copy", "bitcast", "select", "clamp"}
"""What an optimizer or an average makes a new value of a tensor with."""


_NONE: frozenset[int] = frozenset()
PASSING = frozenset({"get-tuple-element", "copy", "bitcast", "convert"})
"""What hands a value on as it is."""


def elementwise(module: Module, i: int) -> Sequence[int]:
    """What an element of an instruction is computed from by the same element alone."""
    return module.operands[i] if module.opcodes[i] in FORMULA else ()


def past_barriers(module: Module, i: int) -> Sequence[int]:
    """The same; and what passes an optimization barrier is what went into it."""
    if module.opcodes[i] != "get-tuple-element":
        return elementwise(module, i)
    (barrier,) = module.operands[i]
    if module.opcodes[barrier] != "opt-barrier":
        return ()
    (group,) = module.operands[barrier]
    index = int(module.attributes[i].get("index") or 0)
    return module.operands[group][index : index + 1] if module.opcodes[group] == "tuple" else ()


def updates(module: Module, sources: Sources = elementwise) -> dict[int, list[int]]:
    """For each parameter that the module updates, the positions of its new values.

    A new value has the parameter's shape and is computed from it element by element; so a
    gradient is none, and a moving average of a weight is one of both. The parameter itself,
    given back as it came, is no new value.
    """
    found: dict[int, list[int]] = {}
    reached = _inputs_reached(module, sources)
    for k, value in enumerate(module.outputs):
        for i in sorted(reached[value] - {value}):
            if module.shapes[i] == module.shapes[value]:
                found.setdefault(i, []).append(k)
    return found


def _inputs_reached(module: Module, sources: Sources) -> dict[int, frozenset[int]]:
    """For what outputs are computed from element by element, the inputs that it is.

    Each instruction is looked at once, operands before users; equal sets are one object.
    """
    below: dict[int, Sequence[int]] = {}
    stack = list(module.outputs)
    while stack:
        i = stack.pop()
        if i not in below:
            below[i] = sources(module, i)
            stack += below[i]
    reached: dict[int, frozenset[int]] = {}
    for i in sorted(below):
        if is_input(module, i):
            reached[i] = frozenset((i,))
            continue
        sets = dict.fromkeys(found for o in below[i] if (found := reached[o]))
        first = next(iter(sets), _NONE)
        reached[i] = first if len(sets) < 2 else first.union(*sets)
    return reached


def renewed(module: Module) -> dict[int, list[int]]:
    """`updates` past optimization barriers, without what is given back as it came."""
    found = {
        p: [k for k in positions if _maker(module, module.outputs[k]) != p]
        for p, positions in updates(module, past_barriers).items()
    }
    return {p: positions for p, positions in found.items() if positions}


def uses_after_update(case: Case, edges: Sequence[Edge]) -> dict[Edge, SideView]:
    """Those of these uses that take the new value of an input where the other side takes the input.

    With the side that takes the new value. Only what is given away is an input that a new value
    takes the place of; or what it is added to, where nothing is given away.
    """
    found: dict[Edge, SideView] = {}
    for view, other in case.both_ways:
        module, given = view.module, given_away(view.module)
        every = (updates(module) if given else renewed(module)).items()
        new = {
            p: {module.outputs[k] for k in places}
            for p, places in every
            if not given or int(module.payloads[p]) in given
        }
        for edge in edges:
            came = other.partners[edge.value(other)]
            if edge.value(view) in new.get(came, ()):
                found.setdefault(edge, view)
    return found


def pairs_after_update(case: Case) -> frozenset[tuple[int, int]]:
    """Pairs that take an input before its update on one side and behind it else, and no more."""
    edges: dict[tuple[int, int], list[Edge]] = {}
    for edge in open_edges(case):
        if edge.place != OUTPUT:
            edges.setdefault((edge.x, edge.y), []).append(edge)
    late = uses_after_update(case, [edge for own in edges.values() for edge in own])
    return frozenset(pair for pair, own in edges.items() if all(edge in late for edge in own))


def _maker(module: Module, value: int) -> int:
    """The instruction that made a value, before it passed barriers and copies."""
    while module.opcodes[value] in PASSING and len(past_barriers(module, value)) == 1:
        (value,) = past_barriers(module, value)
    return value


def formula(module: Module, value: int, sources: Sources = elementwise) -> set[int]:
    """The instructions that an element of the value depends on by the same element alone."""
    seen, stack = {value}, [value]
    while stack:
        for source in sources(module, stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return seen


def in_updates(module: Module) -> set[int]:
    """The instructions that new values of tensors depend on by the same element alone.

    A loss that is multiplied by a number is no new value of that.
    """
    new = updates(module)
    tensors = (p for p in new if not module.shapes[p].partition("{")[0].endswith("[]"))
    places = {k for p in tensors for k in new[p]}
    return set().union(*(formula(module, module.outputs[k]) for k in places))


def new_values(module: Module, parameters: Iterable[int]) -> list[int]:
    """For each of these parameters that is updated the position of its nearest new value."""
    found = updates(module)
    values = module.outputs
    nearest = [min(found[p], key=values.__getitem__) for p in parameters if p in found]
    return list(dict.fromkeys(nearest))


class Made(NamedTuple):
    """A value that one side makes from constants alone, and what the other takes in for it."""

    value: int
    parameter: int
    tensor: Tensor | None


def made_anew(case: Case, maker: SideView, taker: SideView) -> list[Made]:
    """What one side makes from constants alone and the other takes in in its place.

    A scalar counts if it has a name or is added to: a Python number is neither.
    """
    module = taker.module
    found: dict[int, Made] = {}
    for edge in open_edges(case):
        value, parameter = edge.value(maker), edge.value(taker)
        if (
            edge.place != OUTPUT
            and is_input(module, parameter)
            and taker.partners[parameter] < 0
            and maker.matched.closed[value]
            and maker.module.shapes[value] == module.shapes[parameter]
        ):
            tensor = taker.input_tensor(parameter)
            if tensor or not module.shapes[parameter].endswith("[]") or _is_sum(module, parameter):
                found.setdefault(parameter, Made(value, parameter, tensor))
    return sorted(found.values(), key=lambda made: made[:2])


def _is_sum(module: Module, parameter: int) -> bool:
    """Whether the module gives back the parameter with something added: a counter, a total."""
    values = set(module.outputs)
    return any(u in values and module.opcodes[u] == "add" for u in module.users[parameter])


KEEP_ZERO = frozenset(
    {
        "broadcast", "reshape", "convert", "copy", "bitcast", "transpose", "slice", "reverse",
        "reduce-precision", "negate", "abs", "sign", "sqrt", "cbrt", "tanh", "sine", "floor",
        "ceil",
    }
)  # fmt: skip
"""What makes zeros of one value that is zero."""
OF_ZEROS = frozenset({"add", "subtract", "maximum", "minimum", "concatenate"})
"""What makes zeros where all values are zero."""


def at_zero(module: Module, tensors: Iterable[int]) -> tuple[set[int], dict[int, int]]:
    """Which of these entry parameters vanish where they are zero, and what then stands for what.

    Products with zeros are zeros, and sums with zeros are the other summand: the first step of
    an optimizer, or of an average. A tensor that anything else reads does not vanish. Gives
    back what is zero, and for each sum the value that is left of it.
    """
    entry = module.entry_computation
    wanted = set(tensors)
    while True:
        origins = {p: {p} for p in wanted}
        left: dict[int, int] = {}
        stuck: set[int] = set()
        for i in range(entry.start, entry.stop):
            operands = module.operands[i]
            is_zero = [o in origins for o in operands]
            if not any(is_zero):
                continue
            reached = set[int]().union(*(origins.get(o, ()) for o in operands))
            opcode = module.opcodes[i]
            if opcode == "tuple":
                continue
            is_kept = (
                opcode in KEEP_ZERO or opcode == "divide" or (opcode in OF_ZEROS and all(is_zero))
            )
            if opcode == "multiply" or (is_zero[0] and is_kept):
                origins[i] = reached
            elif opcode == "add" or (opcode == "subtract" and is_zero[1]):  # not of zeros alone
                left[i] = _plain(module, operands[is_zero.index(False)], left)
            else:
                stuck |= reached
        if not stuck:
            return set(origins), left
        wanted -= stuck


def _plain(module: Module, value: int, left: Mapping[int, int]) -> int:
    """The value without sums with zeros and products with one."""
    plain = left.get(value, value)
    while (factor := without_one(module, plain)) != plain:
        plain = left.get(factor, factor)
    return plain
