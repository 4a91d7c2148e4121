"""What differs, by the names of functions: ``relu(x)`` and ``silu(x)``, or two forms of one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.values.evaluated import OPENED, are_equal, both_functions, points
from xlagraph.facts.values.notation import ATOM, Term, written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.facts.values.evaluated import Function
    from xlagraph.graph import Module

MAX_EDGES = 200
MAX_UP = 5
"""Operations above what differs within one function."""
MAX_TEXT = 40
"""Characters of a function as it is written out."""
_SELU, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def _elu(x: float) -> float:
    return x if x > 0 else math.expm1(x)


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


KNOWN: Mapping[str, Callable[[float], float]] = {
    "relu(x)": lambda x: max(x, 0.0),
    "relu6(x)": lambda x: min(max(x, 0.0), 6.0),
    "sigmoid(x)": _sigmoid,
    "logsigmoid(x)": lambda x: -_softplus(-x),
    "softplus(x)": _softplus,
    "silu(x)": lambda x: x * _sigmoid(x),
    "gelu(x)": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu(x, approximate='tanh')": _gelu_tanh,
    "tanh(x)": math.tanh,
    "elu(x)": _elu,
    "selu(x)": lambda x: _SELU * (x if x > 0 else _SELU_ALPHA * math.expm1(x)),
    "mish(x)": lambda x: x * math.tanh(_softplus(x)),
    "hardsigmoid(x)": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0),
    "hardswish(x)": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
    "softsign(x)": lambda x: x / (1 + abs(x)),
    "square(x)": lambda x: x * x,
    "rsqrt(x)": lambda x: 1 / math.sqrt(x),
}
"""Functions of one number by the names that torch gives them."""


class InFunctions(NamedTuple):
    """What each side computes; equal names where both compute one function in two forms."""

    a: str
    b: str
    form_a: str
    """How A writes it; its name where that is long."""
    form_b: str

    @property
    def is_one(self) -> bool:
        """Whether both compute the same function, written in two forms."""
        return self.a == self.b


def in_functions(diff: Diff, a: Collection[int], b: Collection[int]) -> InFunctions | None:
    """The functions that tell what differs; None where they are none, or not known by name.

    a, b: the instructions of a cause. Of two forms of one function only what comes behind may be
    unknown: its derivatives.
    """
    tried = [_compared(diff, edge) for edge in _edges(diff, a, b)]
    equal = [one for one in tried if one.is_equal]
    within = set().union(*(one.a for one in equal)), set().union(*(one.b for one in equal))
    own = [
        one
        for one in tried
        if one.is_equal or not (one.edge.x in within[0] and one.edge.y in within[1])
    ]
    other = next((one.named for one in own if one.named and not one.is_equal), None)
    last = max((k for k, one in enumerate(own) if one.is_equal), default=0)
    is_one = all(one.is_equal for one in own[:last]) and not any(
        one.is_equal is False for one in own
    )
    return other or next((one.named for one in own if one.named and is_one), None)


class _Edge(NamedTuple):
    """A value that an instruction takes in A where its partner takes another one in B."""

    x: int
    y: int
    p: int
    q: int


class _Compared(NamedTuple):
    """What two values are by name, and whether they are equal; None where that is not known."""

    edge: _Edge
    named: InFunctions | None = None
    is_equal: bool | None = None
    a: frozenset[int] = frozenset()
    b: frozenset[int] = frozenset()
    """What the functions are made of."""


def _compared(diff: Diff, edge: _Edge) -> _Compared:
    found = _Compared(edge)
    for pair in _up(diff, edge.p, edge.q):
        for one, other in both_functions(diff, *pair):
            values = _values(diff, one, other)
            if values is None or edge.p not in one.read or edge.q not in other.read:
                continue
            is_equal = are_equal(*values)
            named = _named(diff, one, other, is_equal=is_equal)
            found = _Compared(edge, named, is_equal, one.read, other.read)
            if named or is_equal:
                return found
    return found


def _named(diff: Diff, one: Function, other: Function, *, is_equal: bool) -> InFunctions | None:
    """Two functions of one number by name, if both have one and these tell what differs."""
    rows = _rows(one, other)
    names = _name(one, rows[0]), _name(other, rows[1])
    if not all(names) or is_equal != (names[0] == names[1]):
        return None
    forms = _text(diff.a, one) or names[0], _text(diff.b, other) or names[1]
    return InFunctions(*names, *forms) if forms[0] != forms[1] else None


def _up(diff: Diff, p: int, q: int) -> list[tuple[int, int]]:
    """A pair of values, and what both sides compute from it number by number."""
    found = [(p, q)]
    to_b, (a, b) = diff.match.to_b, (diff.a, diff.b)
    for _ in range(MAX_UP):
        p, q = found[-1]
        ups = [u for u in a.users[p] if a.opcodes[u] in OPENED and to_b[u] in b.users[q]]
        if len(ups) != 1:
            break
        found.append((ups[0], to_b[ups[0]]))
    return found


def _edges(diff: Diff, a: Collection[int], b: Collection[int]) -> Iterator[_Edge]:
    """Values of which the one is taken in A where the other is in B; what takes both crossed."""
    to_b, seen = diff.match.to_b, set[tuple[int, int]]()
    for x, y, fields in diff.changes:
        below = diff.a.operands[x], diff.b.operands[y]
        if x not in a or y not in b or "operands" not in fields or len(below[0]) != len(below[1]):
            continue
        pairs = [(p, q) for p, q in zip(*below, strict=True) if to_b[p] != q]
        is_own = diff.a.opcodes[x] in OPENED and diff.a.opcodes[x] == diff.b.opcodes[y]
        for p, q in [(x, y)] if len(pairs) > 1 and is_own else pairs:
            if (p, q) not in seen and len(seen) < MAX_EDGES:
                seen.add((p, q))
                if bare_shape(diff.a, p) == bare_shape(diff.b, q):
                    yield _Edge(x, y, p, q)


def _values(diff: Diff, one: Function, other: Function) -> tuple[list[float], list[float]] | None:
    keys = sorted({*one.variables, *other.variables})
    if not keys or not (one.operations or other.operations):
        return None
    choices = frozenset(key for key in keys if diff.a.shapes[key[0]].startswith("pred["))
    tried = points(keys, choices)
    return [one.at(point) for point in tried], [other.at(point) for point in tried]


def _rows(one: Function, other: Function) -> tuple[list[float], list[float]]:
    """The values of functions of one number, the same of both; empty of other functions."""
    keys = sorted({*one.variables, *other.variables})
    if len(keys) != 1:
        return [], []
    tried = points(keys)
    return [one.at(point) for point in tried], [other.at(point) for point in tried]


def _name(function: Function, row: Sequence[float]) -> str:
    if not row or not function.operations:
        return ""
    (key,) = function.variables or (None,)
    if key is None:
        return ""
    tried = [point[key] for point in points([key])]
    for name, of in KNOWN.items():
        if are_equal(row, [_defined(of, x) for x in tried]):
            return name
    return ""


def _defined(of: Callable[[float], float], x: float) -> float:
    try:
        return of(x)
    except (ArithmeticError, ValueError):
        return math.nan


def _text(module: Module, function: Function) -> str:
    """How it is written, x being what it is a function of; empty where that is long, or called."""
    variables = set(function.variables.values())

    def term(i: int) -> Term:
        if i in variables:
            return Term("x", ATOM)
        if module.opcodes[i] == "constant":
            return Term(module.payloads[i], ATOM)
        terms = [term(o) for o in module.operands[i]]
        return written(module, i, terms) if i in function.operations else terms[0]

    is_called = any(module.opcodes[i] in ("call", "get-tuple-element") for i in function.read)
    if not function.operations or is_called:
        return ""
    last = max(function.operations)
    text = term(last).text if len(function.operations) <= MAX_TEXT // 4 else ""
    return text if len(text) <= MAX_TEXT else ""
