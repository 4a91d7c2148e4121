"""Which tensors a step updates, which it makes anew, and what it computes where they are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.bucket_rows import ELEMENTWISE
from xlagraph.cause.draft import is_input
from xlagraph.cause.pieces import OUTPUT, open_edges
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.finding import Case
    from xlagraph.graph import Module

FORMULA = ELEMENTWISE | {"convert", "copy", "bitcast", "select", "clamp"}
"""What an optimizer or an average makes a new value of a tensor with."""


def updates(module: Module) -> dict[int, list[int]]:
    """For each parameter that the module updates, the positions of its new values.

    A new value has the parameter's shape and is computed from it element by element; so a
    gradient is none, and a moving average of a weight is one of both. The parameter itself,
    given back as it came, is no new value.
    """
    found: dict[int, list[int]] = {}
    for k, value in enumerate(output_values(module)):
        for i in sorted(formula(module, value) - {value}):
            if is_input(module, i) and module.shapes[i] == module.shapes[value]:
                found.setdefault(i, []).append(k)
    return found


def formula(module: Module, value: int) -> set[int]:
    """The instructions that an element of the value depends on by the same element alone."""
    seen, stack = {value}, [value]
    while stack:
        i = stack.pop()
        if module.opcodes[i] in FORMULA:
            stack += [o for o in module.operands[i] if o not in seen]
            seen.update(module.operands[i])
    return seen


def new_values(module: Module, parameters: Iterable[int]) -> list[int]:
    """For each of these parameters that is updated the position of its nearest new value."""
    found = updates(module)
    values = output_values(module)
    nearest = [min(found[p], key=values.__getitem__) for p in parameters if p in found]
    return list(dict.fromkeys(nearest))


def made_anew(case: Case, *, forward: bool) -> list[tuple[int, int, str]]:
    """What A makes from constants alone and B takes in in its place, with its name if known.

    Unless `forward`, the other way round. A scalar counts if it has a name or is added to: a
    Python number is neither.
    """
    match = case.diff.match
    made, taken = (match.a, match.b) if forward else (match.b, match.a)
    partners = match.to_a if forward else match.to_b
    context = case.context_b if forward else case.context_a
    module = taken.module
    found: dict[int, tuple[int, int, str]] = {}
    for edge in open_edges(case):
        value, parameter = (edge.p, edge.q) if forward else (edge.q, edge.p)
        if (
            edge.place != OUTPUT
            and is_input(module, parameter)
            and partners[parameter] < 0
            and made.closed[value]
            and made.module.shapes[value] == module.shapes[parameter]
        ):
            name = context.input_name(module, parameter)
            if name or not module.shapes[parameter].endswith("[]") or _is_sum(module, parameter):
                found.setdefault(parameter, (value, parameter, name))
    return sorted(found.values())


def _is_sum(module: Module, parameter: int) -> bool:
    """Whether the module gives back the parameter with something added: a counter, a total."""
    values = set(output_values(module))
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
    while True:
        value = left.get(value, value)
        if module.opcodes[value] != "multiply":
            return value
        x, y = module.operands[value]
        if not (_is_one(module, x) or _is_one(module, y)):
            return value
        value = y if _is_one(module, x) else x


def _is_one(module: Module, value: int) -> bool:
    """Whether a value is a constant 1, spread or converted."""
    while module.opcodes[value] in ("broadcast", "convert", "reshape"):
        (value,) = module.operands[value]
    return module.opcodes[value] == "constant" and module.payloads[value] == "1"
