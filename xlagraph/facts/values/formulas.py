"""What each side computes where a small piece differs, as formulas over values that both have."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.names import short_shape
from xlagraph.facts.program.arguments import argument_name
from xlagraph.facts.values.notation import (
    ATOM,
    MAX_TWICE,
    NUMBER,
    Term,
    elements,
    logistic_of,
    row_of,
    told_as,
    unsquared,
    written,
)
from xlagraph.facts.values.results import (
    ARITHMETIC,
    MAX_CLIMBED,
    RESHAPED,
    THROUGH,
    ends,
    forward_pass,
    is_result,
    unspread,
)
from xlagraph.facts.values.scalars import number_of
from xlagraph.message import Code, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side as Matched
    from xlagraph.graph import Module
    from xlagraph.message import Message

SHORT, LONG = 8, 16
"""Operations of a formula; one of more than the first is told where there is no other, and a still
longer one is no help."""
WIDE = 24
"""Where both sides alone compute more than so many operations, with their derivatives, what comes
first tells of them."""
MAX_TRIED = 200
"""Values that are looked at for a formula that tells the difference."""
MAX_USERS = 60
MAX_NAME = 24
SPREAD = THROUGH | {"constant"}
UNSAID = frozenset({"tuple", "while", "conditional", "call", "fusion", "parameter"})
"""What tells nothing as an operation: of such a one the values that differ are told."""
UNTOLD = (UNSAID - {"call"}) | {"custom-call", "opt-barrier", "sort"}
"""What no formula is written of."""
VALUES = ("x", "y", "z", "u", "v", "w")
GRADIENTS = ("g", "h", "k")
STATE = ("m", "n", "o")
NUMBERS = ("s", "t", "r", "q")


class Formulas(NamedTuple):
    """The same value as A computes it and as B does."""

    a: str
    b: str
    legend: tuple[tuple[str, str], ...]
    """What the letters stand for: ``g`` and ``dot f32[8,4]``."""
    told: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """The instructions of A and of B that are written out."""

    @property
    def message(self) -> Message:
        """``x / s became x * s``."""
        return say(Code(self.a), " became ", Code(self.b))

    @property
    def is_of_update(self) -> bool:
        """Whether a parameter or its state is among them: that is a new value's."""
        return not {"p", *STATE}.isdisjoint(dict(self.legend))


class _Own(NamedTuple):
    """What of one side is written out."""

    open: Collection[int]
    """What differs."""
    above: Collection[int]
    """What stands between that and the new value of a parameter."""
    alone: frozenset[int]
    """What this side alone computes: a formula without any of it hides what differs."""
    most: int
    """Operations that are written out."""


class _UntoldError(Exception):
    """A formula of more operations, or of more values, than help."""


@dataclass(slots=True, eq=False)
class _Names:
    """Names of values, A's numbers standing for pairs; the same value has one name."""

    found: dict[tuple[bool, int], str] = field(default_factory=dict)
    legend: dict[str, str] = field(default_factory=dict)

    def give(self, key: tuple[bool, int], letters: Sequence[str], meaning: str) -> str:
        """The name of a value: the first letter that is free."""
        if key not in self.found:
            free = [letter for letter in letters if letter not in self.legend]
            if not free:
                raise _UntoldError
            self.found[key] = free[0]
            self.legend[free[0]] = meaning
        return self.found[key]


@dataclass(slots=True, eq=False)
class _Writer:
    """Writes the formulas of one side."""

    side: Matched
    partners: Sequence[int]
    own: _Own
    names: _Names
    size: int
    """The elements of the parameter whose new value the formula is; 0 if it is none's."""
    left: int
    """Operations that may yet be written out."""
    told: set[int] = field(default_factory=set)
    """The instructions that were written out."""
    computed: bool = False
    """Whether a letter stands for what is computed, and is no input."""
    is_a: bool = field(kw_only=True)
    other: Module = field(kw_only=True)
    within: int = field(kw_only=True)
    """The computation of the other module in which the value's partner stands."""

    def write(self, i: int) -> Term:
        """The formula of a value, written out as far as it differs."""
        module = self.side.module
        i = unspread(module, i)
        operands = module.operands[i]
        if not operands or not (self._is_open(i) or self._is_scaled(i)):
            return Term(self._leaf(i), ATOM)
        self.left -= 1
        self.told.add(i)
        inner = logistic_of(module, i)
        if inner:
            self.told.update(inner[:-1])
            return Term(f"sigmoid({self.write(inner[-1]).text})", ATOM)
        rows = row_of(module, i)
        if rows and self.left >= 0:
            self.told.update(rows[1:-1])
            table, places = self.write(rows[0]), self.write(rows[-1])
            return Term(f"{table.within(ATOM)}[{places.text}]", ATOM)
        if self.left < 0 or module.opcodes[i] in UNTOLD:
            raise _UntoldError
        if module.opcodes[i] in ("reduce", "reduce-window"):
            operands = operands[:1]
        first, *others = operands
        term = self.write(first)
        is_square = others == [first] and len(term.text) > MAX_TWICE
        return written(module, i, [term, *([term] if is_square else map(self.write, others))])

    def _is_open(self, i: int) -> bool:
        is_shared = self.partners[i] >= 0 and _within(self.other, self.partners[i]) == self.within
        return not is_shared or i in self.own.open or i in self.own.above

    def _is_scaled(self, i: int) -> bool:
        """Whether it is a value times a number, or a sum: what both compute, and is soon told."""
        module = self.side.module
        if module.opcodes[i] == "reduce":
            return elements(module, i) != self.size
        numbers = [number_of(module, o) is not None for o in module.operands[i]]
        return module.opcodes[i] in ("multiply", "divide") and any(numbers)

    def _leaf(self, i: int) -> str:
        module, partner = self.side.module, self.partners[i]
        is_number = number_of(module, i) is not None
        if module.opcodes[i] == "constant" and is_number:
            return module.payloads[i]
        key = (True, i) if self.is_a else (partner >= 0, partner if partner >= 0 else i)
        shape = short_shape(module, i)
        if is_input(module, i) and _within(module, i) == module.entry_computation.index:
            named = argument_name(module, i)
            meaning = f"{named or f'input {module.payloads[i]}'} {shape}"
            if is_number or elements(module, i) != self.size:
                short = (named,) if named and len(named) <= MAX_NAME else ()
                return self.names.give(key, (*short, *(NUMBERS if is_number else VALUES)), meaning)
            return self.names.give(key, ("p",) if is_weight(module, i) else STATE, meaning)
        if module.opcodes[i] == "parameter" and self._is_open(i):
            raise _UntoldError  # what a function takes in, and which one it is, its calls know
        self.computed = True
        meaning = f"{told_as(module, i)} {shape}"
        if is_number or elements(module, i) != self.size:
            return self.names.give(key, VALUES, meaning)
        return self.names.give(key, STATE if i in self.side.outputs else GRADIENTS, meaning)


def formulas(
    diff: Diff, a: Collection[int], b: Collection[int], *, long: bool = False
) -> Formulas | None:
    """How both sides compute a value that a cause tells of; None if no short formula tells it.

    a, b: the instructions of A and of B that differ by it; long: a longer one will do as well.
    """
    found = _formulas(diff, a, b, SHORT)
    return _formulas(diff, a, b, LONG) if found is None and long else found


def with_further(
    diff: Diff, a: Collection[int], b: Collection[int], first: Formulas
) -> tuple[Formulas, ...]:
    """The formulas of a value, and those of another one of the forward pass that is apart from it.

    The forward pass is what numbers are made of that are given back, as a loss; where the first
    value is not of it, it is a derivative of the other, and that stands alone; nothing of one that
    is made of numbers only, as where the derivatives begin.
    """
    ways = forward_pass(diff)
    is_forward = _is_within(first, ways)
    outer, inner = _roots(diff, a, b)
    pairs = [(x, y) for x, y in (*outer, *inner)[:MAX_TRIED] if ways[0][x] and ways[1][y]]
    for most in (SHORT,) if is_forward else (SHORT, LONG):
        apart = first.told if is_forward else (frozenset[int](), frozenset[int]())
        if found := _of_forward(diff, pairs, apart, ways, most):
            return (first, found) if is_forward else (found,)
    result = None if is_forward else formulas_of_a_result(diff, a, b)
    begins = not is_forward and {*dict(first.legend)} <= {*NUMBERS}
    return () if begins and result is None else (result or first,)


def _of_forward(
    diff: Diff,
    pairs: Sequence[tuple[int, int]],
    apart: tuple[frozenset[int], frozenset[int]],
    ways: tuple[bytearray, bytearray],
    most: int,
) -> Formulas | None:
    """The formulas of one of these values of the forward pass, of nothing that is told already."""
    own = _owned(diff, (), (), most)
    for pair in pairs:
        found = _both(diff, pair, own, 0)
        if found is None or is_of_derivative(found) or found.is_of_update:
            continue
        is_apart = all(x.isdisjoint(y) for x, y in zip(found.told, apart, strict=True))
        if is_apart and _is_within(found, ways):
            return found
    return None


def _owned(diff: Diff, a: Collection[int], b: Collection[int], most: int) -> tuple[_Own, _Own]:
    """What is written out of both sides, of a cause that tells of these instructions."""
    return (
        _Own({c.a for c in diff.changes}, (), _computed(diff.a, a, diff.removed), most),
        _Own({c.b for c in diff.changes}, (), _computed(diff.b, b, diff.added), most),
    )


def _is_within(found: Formulas, ways: tuple[bytearray, bytearray]) -> bool:
    return all(all(way[i] for i in told) for way, told in zip(ways, found.told, strict=True))


def formulas_of_a_result(
    diff: Diff, a: Collection[int], b: Collection[int], most: int = LONG
) -> Formulas | None:
    """How both sides compute a number that they give back, as a loss, in so many operations.

    What differs of its derivatives follows from that.
    """
    ways = forward_pass(diff)
    own = _owned(diff, [i for i in a if ways[0][i]], [i for i in b if ways[1][i]], most)
    outer, _ = _roots(diff, a, b)
    found = (_both(diff, pair, own, 0) for pair in outer if is_result(diff, *pair))
    return next((one for one in found if one and not is_of_derivative(one)), None)


def _formulas(diff: Diff, a: Collection[int], b: Collection[int], most: int) -> Formulas | None:
    """The same with so many operations at most."""
    plain = _owned(diff, a, b, most)
    outer, inner = _roots(diff, a, b)
    outer.sort(key=lambda pair: not is_result(diff, *pair))
    paths = [(pair, _up_to_new_value(diff, *pair)) for pair in outer[:MAX_TRIED]]
    alone = (_both(diff, pair, plain, 0) for pair, above in paths if above is None)
    renewed = (_of_update(diff, [p, *above], plain) for p, above in paths if above is not None)
    within = (_both(diff, pair, plain, 0) for pair in inner[:MAX_TRIED])
    early = sorted((*outer, *inner)) if min(len(own.alone) for own in plain) > WIDE else []
    begins = (_both(diff, pair, plain, 0, is_first=True) for pair in early[:MAX_TRIED])
    first = None
    for found in chain(begins, alone, renewed, within):
        if found and not is_of_derivative(found):
            return found
        first = first or found
    return first


def is_of_derivative(found: Formulas) -> bool:
    """Whether something computed became a number, or two numbers: it tells little of its origin.

    A number that a parameter takes the place of is no derivative.
    """
    others = [text for text in (found.a, found.b) if not NUMBER.fullmatch(text)]
    return len(others) < 2 and all(set(" (") & set(text) for text in others)


def _computed(module: Module, own: Collection[int], lone: Collection[int]) -> frozenset[int]:
    """What a cause tells of that one side alone computes, but for numbers and forms."""
    return frozenset(i for i in lone if i in own and module.opcodes[i] not in SPREAD)


def _roots(
    diff: Diff, a: Collection[int], b: Collection[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Values of both sides made of what differs: those that go into no other such one, the rest."""
    to_b, entries = diff.match.to_b, (diff.a.entry_computation.root, diff.b.entry_computation.root)
    pairs: list[tuple[int, int]] = []
    for x, y, fields in diff.changes:
        if x not in a or y not in b or "operands" not in fields or (x, y) == entries:
            continue
        if diff.match.computations.get(_within(diff.a, x)) != _within(diff.b, y):
            continue
        below_a, below_b = diff.a.operands[x], diff.b.operands[y]
        if UNSAID.isdisjoint((diff.a.opcodes[x], diff.b.opcodes[y])):
            pairs.append((x, y))
        elif len(below_a) == len(below_b):
            pairs += [p for p in zip(below_a, below_b, strict=True) if to_b[p[0]] != p[1]]
    pairs += [(p, q) for p, q in ends(diff) if (p in a or q in b) and to_b[p] != q]
    mine, theirs = {x for x, _ in pairs}, {y for _, y in pairs}
    outer = {
        (x, y)
        for x, y in pairs
        if mine.isdisjoint(diff.a.users[x]) and theirs.isdisjoint(diff.b.users[y])
    }
    return sorted(outer), sorted(set(pairs) - outer)


def _up_to_new_value(diff: Diff, x: int, y: int) -> list[tuple[int, int]] | None:
    """What stands above a pair up to the new value of a parameter that it goes straight into."""
    a, to_b = diff.a, diff.match.to_b
    above: list[tuple[int, int]] = []
    while x not in diff.match.a.outputs:
        ups = [u for u in a.users[x] if a.opcodes[u] in ARITHMETIC | RESHAPED]
        if len(ups) != 1 or to_b[ups[0]] not in diff.b.users[y] or len(above) == MAX_CLIMBED:
            return None
        x, y = ups[0], to_b[ups[0]]
        above.append((x, y))
    return above if _is_new_value(a, x) and _is_new_value(diff.b, y) else None


def _of_update(
    diff: Diff, path: Sequence[tuple[int, int]], own: tuple[_Own, _Own]
) -> Formulas | None:
    """The formulas of the new value of a parameter, at the end of this path."""
    above = {x for x, _ in path[1:]}, {y for _, y in path[1:]}
    ends = own[0]._replace(above=above[0]), own[1]._replace(above=above[1])
    return _both(diff, path[-1], ends, elements(diff.a, path[-1][0]))


def _both(
    diff: Diff,
    pair: tuple[int, int],
    own: tuple[_Own, _Own],
    size: int,
    *,
    is_first: bool = False,
) -> Formulas | None:
    """Both formulas; None where they are long, do not tell what differs, or are bare numbers.

    Nor are they told of constants alone (a gradient of 0 does not tell of what it is one), or
    where a number of Python's is all that one side computes.

    `is_first`: one of the two may be of what both sides compute, as the first values are.
    """
    match, names = diff.match, _Names()
    at_a, at_b = _within(diff.a, pair[0]), _within(diff.b, pair[1])
    writers = (
        _Writer(
            *(match.a, match.to_b, own[0], names, size, own[0].most),
            is_a=True,
            other=diff.b,
            within=at_b,
        ),
        _Writer(
            *(match.b, match.to_a, own[1], names, size, own[1].most),
            is_a=False,
            other=diff.a,
            within=at_a,
        ),
    )
    try:
        a, b = unsquared(*(w.write(i).text for w, i in zip(writers, pair, strict=True)))
    except _UntoldError:
        return None
    legend = tuple(_used(names.legend, f"{a} {b}"))
    is_told = a != b and not {a, b} <= names.legend.keys()
    some = all if is_first else any
    is_hidden = some(w.computed and w.own.alone.isdisjoint(w.told) for w in writers if w.own.alone)
    numbers = names.legend.keys() & set(NUMBERS)
    is_bare = not legend and not any(writer.told for writer in writers)
    is_bare = is_bare or (numbers == names.legend.keys() and not numbers.isdisjoint((a, b)))
    is_closed = any(
        w.told and not any(_used(names.legend, t)) for w, t in zip(writers, (a, b), strict=True)
    )
    is_idle = is_hidden or is_bare or is_closed
    told = frozenset(writers[0].told), frozenset(writers[1].told)
    return Formulas(a, b, legend, told) if is_told and not is_idle else None


def _used(legend: Mapping[str, str], texts: str) -> Iterator[tuple[str, str]]:
    """What stands in the texts, but for names that say it themselves."""
    for name, meaning in legend.items():
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w(])", texts):
            yield name, meaning.removeprefix(f"{name} ")


def _within(module: Module, i: int) -> int:
    return module.computation_of(i).index


def _is_new_value(module: Module, value: int) -> bool:
    """Whether a parameter of its shape stands in the last operations of an output."""
    shape = bare_shape(module, value)
    front = [value] if not shape.endswith("[]") else []
    for _ in range(MAX_CLIMBED):
        sums = [i for i in front if module.opcodes[i] in ARITHMETIC]
        front = [o for i in sums for o in module.operands[i] if bare_shape(module, o) == shape]
        if any(is_input(module, i) for i in front):
            return True
    return False


def is_weight(module: Module, parameter: int) -> bool:
    """Whether a parameter is a weight: used for other shapes too, not only renewed."""
    shape, front, seen = bare_shape(module, parameter), [parameter], {parameter}
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if user == module.entry_computation.root or user in seen or len(seen) > MAX_USERS:
                continue
            if bare_shape(module, user) != shape:
                return True
            seen.add(user)
            front.append(user)
    return False
