"""Values that are computed number by number, as functions that can be evaluated and compared.

What two texts write in other operations may be one function, or a well-known one: its values tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.names import short_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

MAX_NODES = 80
"""Operations of a function; more are no one's activation."""
MIN_COMPARED = 12
"""Points at which two functions have to be numbers to be called equal there."""
CLOSE, NEAR_ZERO = 2e-5, 1e-6
FORMS = frozenset({"bitcast", "broadcast", "copy", "reshape", "transpose"})
_UNARY: Mapping[str, Callable[[float], float]] = {
    "abs": abs,
    "cosine": math.cos,
    "erf": math.erf,
    "exponential": math.exp,
    "exponential-minus-one": math.expm1,
    "log": math.log,
    "log-plus-one": math.log1p,
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "negate": lambda x: -x,
    "not": lambda x: float(not x),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sign": lambda x: float((x > 0) - (x < 0)),
    "sine": math.sin,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
}
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "and": lambda x, y: float(bool(x) and bool(y)),
    "divide": lambda x, y: x / y,
    "maximum": max,
    "minimum": min,
    "multiply": lambda x, y: x * y,
    "or": lambda x, y: float(bool(x) or bool(y)),
    "power": math.pow,
    "subtract": lambda x, y: x - y,
}
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
}
OPENED = frozenset({*_UNARY, *_BINARY, "select", "clamp", "compare", "convert"})
MAX_ROUNDS = 8
_NUMBERS = ("bf16[", "f16[", "f32[", "f64[", "pred[")
_WIDE = ("f32[", "f64[")
Form = tuple[str, str, str]
Key = tuple[int, tuple[Form, ...]]
"""A value that both sides have, by its number in A, and the forms in which it is taken."""


class _UnknownError(Exception):
    """A value that is not computed number by number from what both sides have."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation, a number or a variable."""

    opcode: str = ""
    operands: tuple[Node, ...] = ()
    direction: str = ""
    number: float = 0.0
    key: Key | None = None

    def at(self, point: Mapping[Key, float], known: dict[Node, float]) -> float:
        """The value at a point; `known` keeps what was computed."""
        if self not in known:
            known[self] = self._at(point, known)
        return known[self]

    def _at(self, point: Mapping[Key, float], known: dict[Node, float]) -> float:
        if self.key is not None:
            return point[self.key]
        if not self.opcode:
            return self.number
        values = [one.at(point, known) for one in self.operands]
        if self.opcode == "select":
            return values[1] if values[0] else values[2]
        if self.opcode == "clamp":
            return min(max(values[0], values[1]), values[2])
        if self.opcode == "compare":
            return float(_COMPARED[self.direction](*values))
        if len(values) == 1:
            return _UNARY[self.opcode](values[0])
        return _BINARY[self.opcode](values[0], values[1])


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A value of one side as a function of values that both sides have."""

    root: Node
    variables: Mapping[Key, int]
    """Each with its number in the side's module."""
    operations: frozenset[int]
    """The operations that it is made of."""
    read: frozenset[int]
    """These with numbers, and what only puts values into another form."""

    def at(self, point: Mapping[Key, float]) -> float:
        """The value at a point; not a number where the function has none."""
        try:
            return self.root.at(point, {})
        except (ArithmeticError, ValueError):
            return math.nan


@dataclass(slots=True, eq=False)
class _Reader:
    """Reads the functions of one side."""

    module: Module
    number_in_a: Mapping[int, int]
    """What both sides have, by its number here: its number in A."""
    nodes: dict[tuple[int, tuple[Form, ...]], Node] = field(default_factory=dict)
    variables: dict[Key, int] = field(default_factory=dict)
    operations: set[int] = field(default_factory=set)
    calls: dict[int, int] = field(default_factory=dict)
    """For each computation that was entered the call that leads to it: one alone."""

    def read(self, i: int, forms: tuple[Form, ...] = ()) -> Node:
        """The value in these forms."""
        at = (i, forms)
        if at not in self.nodes:
            if len(self.nodes) >= MAX_NODES:
                raise _UnknownError
            self.nodes[at] = self._read(i, forms)
        return self.nodes[at]

    def _read(self, i: int, forms: tuple[Form, ...]) -> Node:
        module, opcode = self.module, self.module.opcodes[i]
        if opcode == "constant":
            return Node(number=_constant(module, i))
        operands = module.operands[i]
        if opcode in FORMS:
            if bare_shape(module, operands[0]).endswith("[]"):
                return self.read(operands[0])
            if bare_shape(module, operands[0]) == bare_shape(module, i) and opcode != "transpose":
                return self.read(operands[0], forms)
            form = (opcode, short_shape(module, i), module.attributes[i].get("dimensions") or "")
            return self.read(operands[0], (form, *forms))
        if not module.shapes[i].startswith(_NUMBERS):
            raise _UnknownError  # whole numbers divide and compare otherwise
        if i in self.number_in_a:
            key = (self.number_in_a[i], forms)
            self.variables[key] = i
            return Node(key=key)
        inside = self._called(i)
        if inside is not None:
            return self.read(inside, forms)
        if opcode == "convert":
            self._check_wide(i)
            return self.read(operands[0], forms)
        is_known = (
            (opcode in _UNARY and len(operands) == 1)
            or (opcode in _BINARY and len(operands) == 2)
            or (opcode in ("select", "clamp") and len(operands) == 3)
        )
        direction = module.attributes[i].get("direction") or ""
        if not is_known and not (opcode == "compare" and direction in _COMPARED):
            raise _UnknownError
        self.operations.add(i)
        return Node(opcode, tuple(self.read(o, forms) for o in operands), direction)

    def _called(self, i: int) -> int | None:
        """What a call computes, and what a function of the program is given; else None."""
        module, opcode = self.module, self.module.opcodes[i]
        if opcode == "parameter":
            call = self.calls.get(module.computation_of(i).index)
            return None if call is None else module.operands[call][int(module.payloads[i])]
        (call, *_) = module.operands[i] if opcode == "get-tuple-element" else (i,)
        if module.opcodes[call] != "call":
            return None
        (called,) = module.callees[call]
        if self.calls.setdefault(called, call) != call:
            raise _UnknownError  # its parameters are something else there
        root = module.computations[called].root
        if call == i or module.opcodes[root] != "tuple":
            return root if call == i else None
        return module.operands[root][int(module.attributes[i].get("index") or 0)]

    def _check_wide(self, i: int) -> None:
        """A conversion that rounds is a part of what is computed."""
        is_choice = self.module.shapes[self.module.operands[i][0]].startswith("pred[")
        if not (self.module.shapes[i].startswith(_WIDE) or is_choice):
            raise _UnknownError


def _constant(module: Module, i: int) -> float:
    text = module.payloads[i]
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        raise _UnknownError from None


def both_functions(diff: Diff, p: int, q: int) -> Iterator[tuple[Function, Function]]:
    """A value of A and one of B as functions of what both have, of fewer and fewer such values.

    What both compute alike stands for itself at first, then what it is computed from does.
    """
    changed = {c.a for c in diff.changes}
    known = {x: y for x, y in enumerate(diff.match.to_b) if y >= 0 and x not in changed}
    known.pop(p, None)
    for _ in range(MAX_ROUNDS):
        sides = {x: x for x in known}, {y: x for x, y in known.items() if y != q}
        try:
            one, other = _function(diff.a, p, sides[0]), _function(diff.b, q, sides[1])
        except _UnknownError:
            return
        if one.variables.keys() == other.variables.keys():
            yield one, other
        keys = {*one.variables} ^ {*other.variables} or {*one.variables}
        if len({*one.variables, *other.variables}) < 2:
            return
        inner = [x for x, _ in keys if diff.a.operands[x] and diff.a.opcodes[x] in OPENED]
        if not inner:
            return
        del known[max(inner)]


def function(module: Module, i: int, known: Mapping[int, int]) -> Function | None:
    """A value as a function of known ones, each with its number; None where it is none of them."""
    try:
        return _function(module, i, known)
    except _UnknownError:
        return None


def _function(module: Module, i: int, known: Mapping[int, int]) -> Function:
    reader = _Reader(module, known)
    root = reader.read(i)
    taken = set(reader.variables.values())
    read = frozenset(x for x, _ in reader.nodes if x not in taken)
    return Function(root, reader.variables, frozenset(reader.operations), read)


def points(keys: Sequence[Key], choices: frozenset[Key] = frozenset()) -> list[dict[Key, float]]:
    """Points at which functions are compared; the same ones each time. `choices` are 0 or 1."""
    chance = Random(7)  # noqa: S311
    ranges = [(-3.0, 3.0)] * 24 + [(0.02, 2.0)] * 12 + [(-9.0, 9.0)] * 12
    return [
        {
            key: float(chance.random() < 0.5) if key in choices else chance.uniform(*ends)
            for key in keys
        }
        for ends in ranges
    ]


def are_equal(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two rows of values are equal but for rounding."""
    pairs = [(x, y) for x, y in zip(one, other, strict=True) if not both_undefined(x, y)]
    return len(pairs) >= MIN_COMPARED and all(
        math.isclose(x, y, rel_tol=CLOSE, abs_tol=NEAR_ZERO) for x, y in pairs
    )


def both_undefined(x: float, y: float) -> bool:
    """Whether neither is a number."""
    return not math.isfinite(x) and not math.isfinite(y)
