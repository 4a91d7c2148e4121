"""A softmax, mean, norm or sum that runs over another axis, with all that follows from it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes, differing_keys, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, line_of, where
from xlagraph.facts.values.evaluated import FORMS
from xlagraph.facts.values.ranges import axes_of
from xlagraph.facts.values.reductions import PLAIN, reduction_name
from xlagraph.facts.values.scalars import through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, say
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

FIELDS = frozenset({"attributes", "shape", "layout"})
SPREADS = frozenset({"broadcast", "reduce"})
BETWEEN = FORMS | {"broadcast", "convert", "log", "negate", "sqrt"}
"""What stands between a reduction and where its value is spread, of one value each."""

Axes = tuple[int, ...]


class _Turn(NamedTuple):
    """The axes on both sides, of values of so many axes."""

    a: Axes
    b: Axes
    rank: int


class _Of(NamedTuple):
    """What runs over other axes, and at which line."""

    name: str
    turn: _Turn
    line: SourceLine | None


Pairs = list[tuple[int, int]]


def find(case: Case) -> list[Finding]:
    """Reductions over other axes that have a name, with what spreads their values and gradients.

    So is what holds their values with the axes that they run over, each of one number. Where a
    value is spread before anything is reduced, the sum is the derivative of that.
    """
    a, b = case.diff.a, case.diff.b
    pairs = [(x, y) for x, y, fields in case.open_changes() if FIELDS.issuperset(fields)]
    homes: dict[int, _Of] = {}
    for x, y in pairs:
        turn, name = _turn(a, x, b, y), reduction_name(a, x)
        if turn and name and name == reduction_name(b, y):
            line = line_of(b, y)
            homes[x] = _Of(name, turn, line.forward if line else None)
    homes = _placed(homes)
    groups: dict[_Of, Pairs] = defaultdict(list)
    for x, y in pairs:
        home = homes.get(x) or _spread(case, x, y, homes)
        if home:
            groups[home].append((x, y))
    return [
        _finding(case, of, found)
        for of, found in groups.items()
        if reduction_name(a, min(found)[0]) and _is_closed(case, found)
    ]


def _is_closed(case: Case, pairs: Pairs) -> bool:
    """Whether no value of another size goes on to others: there a size is what differs most."""
    a, b = case.diff.a, case.diff.b
    own = {x for x, _ in pairs}
    resized = [x for x, y in pairs if _sizes(a, x) != _sizes(b, y)]
    return all(
        u in own
        or case.diff.match.to_b[u] < 0
        or _sizes(a, u) == _sizes(b, case.diff.match.to_b[u])
        for x in resized
        for u in a.users[x]
    )


def _turn(a: Module, x: int, b: Module, y: int) -> _Turn | None:
    """Over which axes a pair of reductions runs, or which ones a pair of broadcasts fills."""
    if a.opcodes[x] not in SPREADS or a.opcodes[x] != b.opcodes[y]:
        return None
    if differing_keys(a.attributes[x], b.attributes[y]) != {"dimensions"}:
        return None
    (one, sizes), (other, same) = _axes(a, x), _axes(b, y)
    is_turn = one and other and sizes == same and one != other
    is_turn = is_turn and max(*one, *other) < len(sizes)  # another rule may have undone a size
    return _Turn(one, other, len(sizes)) if is_turn else None


def _axes(module: Module, i: int) -> tuple[Axes, Axes]:
    """Those axes, and the sizes of the larger value: of others the axes are exchanged."""
    axes = tuple(sorted(axes_of(module, i)))
    is_sum = module.opcodes[i] == "reduce"
    sizes = _sizes(module, module.operands[i][0] if is_sum else i)
    return axes if is_sum else tuple(k for k in range(len(sizes)) if k not in axes), sizes


def _sizes(module: Module, i: int) -> Axes:
    """The sizes of a value; none of a tuple."""
    shape = read_shape(module.shapes[i])
    return () if shape.is_tuple else tuple(shape.dimensions)


def _holds(a: Module, x: int, b: Module, y: int, turn: _Turn) -> bool:
    """Whether a pair holds the same numbers, the axes that are run over kept with one each."""
    one, other = _sizes(a, x), _sizes(b, y)
    if not len(one) == len(other) == turn.rank or "parameter" in (a.opcodes[x], b.opcodes[y]):
        return False
    if {*(one[k] for k in turn.a), *(other[k] for k in turn.b)} != {1} or one == other:
        return False
    return _without(one, turn.a) == _without(other, turn.b)


def _without(sizes: Axes, axes: Axes) -> Axes:
    return tuple(size for k, size in enumerate(sizes) if k not in axes)


def _placed(homes: dict[int, _Of]) -> dict[int, _Of]:
    """The same, those without a line together with the only ones alike that lead.

    What leads has a name that its neighbours tell, or a line. A sum beside it is most likely its
    derivative, and is counted at any rate.
    """
    own: dict[_Turn, set[_Of]] = defaultdict(set)
    for of in homes.values():
        own[of.turn].add(of)
    leads = {turn: _leading(known) for turn, known in own.items()}
    return {x: leads[of.turn] or of if of.line is None else of for x, of in homes.items()}


def _leading(alike: set[_Of]) -> _Of | None:
    """The only one that has a line or else a telling name; None if several have."""
    plain = PLAIN.values()
    groups = (
        {of for of in alike if of.line and of.name not in plain},
        {of for of in alike if of.line},
        {of for of in alike if of.name not in plain},
        {of for of in alike if of.name != "sum"},
        alike,
    )
    first = next(filter(None, groups))
    return next(iter(first)) if len(first) == 1 else None


def _spread(case: Case, x: int, y: int, homes: dict[int, _Of]) -> _Of | None:
    """Whose value a pair holds or spreads; else the only ones whose gradient it may be."""
    a, b = case.diff.a, case.diff.b
    turn = _turn(a, x, b, y)
    alike = {of for of in homes.values() if turn == of.turn or _holds(a, x, b, y, of.turn)}
    below = through(a, x, BETWEEN)
    home = homes.get(through(a, a.operands[below][0], BETWEEN) if a.operands[below] else below)
    return home if home in alike else alike.pop() if len(alike) == 1 else None


def _finding(case: Case, of: _Of, pairs: Sequence[tuple[int, int]]) -> Finding:
    a, b = case.diff.a, case.diff.b
    in_a, in_b = [x for x, _ in pairs], [y for _, y in pairs]
    lines = where(b, in_b)
    x, y = next((p, q) for p, q in pairs if reduction_name(a, p) == of.name)
    shape = short_shape(a, a.operands[x][0])
    short = say(f"{of.name} of {shape} runs over {_words(of.turn.a)} in ", A)
    short = say(short, f" and over {_words(of.turn.b)} in ", B)
    others = sum(reduction_name(a, p) not in ("", of.name) for p in in_a)
    if others:
        more = "does another reduction" if others == 1 else f"do {others} other reductions"
        short = say(short, f", and so {more}")

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            edit.a.attributes[p] = b.attributes[q]
            edit.a.shapes[p] = b.shapes[q]

    changes = attribute_changes(a.attributes[x], b.attributes[y])
    return Finding(
        kind=ATTRIBUTE,
        title=say(short, at(lines)),
        short=short,
        evidence=(Evidence(changes, tuple(in_a), tuple(in_b), lines),),
        proof=say(A, f"'s {of.name} was given the axes of ", B, "'s"),
        a=frozenset(in_a),
        b=frozenset(in_b),
        undo=undo,
    )


def _words(axes: Axes) -> str:
    """``axis 2``, ``axes 0 and 1``."""
    *first, last = map(str, axes)
    return f"axes {', '.join(first)} and {last}" if first else f"axis {last}"


RULE = Rule(
    name="reduced-axes",
    kinds=(),
    find=find,
    after=("dtype",),
    before=("exchanged-axes", "sizes", "attributes"),
)
