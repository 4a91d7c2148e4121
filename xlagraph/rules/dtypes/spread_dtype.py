"""An input of another dtype with which something is computed before it is converted.

What stands between the input and the conversion has its type, and so do the numbers of Python
that are used there. So it looks as if a value were computed in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.casts import inputs_in_short
from xlagraph.facts.pieces.pieces import OUTPUT, Edge, open_edges
from xlagraph.facts.values.rounding import same_number
from xlagraph.facts.values.scalars import is_scalar_input
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.message import A, B, Change, count, join, say
from xlagraph.rules.dtypes.dtype import (
    DTYPE,
    FROM_VALUES,
    brings,
    element_type,
    number_family,
    origin,
)
from xlagraph.rules.dtypes.input_dtype import are_two

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors


class _Spread(NamedTuple):
    """What A and B compute alike, but for the types, from inputs up to one use."""

    edge: Edge
    pairs: dict[int, int]
    """A's instructions to B's, of which at least the type differs or neither has a partner."""
    casts_a: frozenset[int]
    casts_b: frozenset[int]

    def inputs(self, case: Case) -> list[tuple[int, int]]:
        """The arrays that come in as another type."""
        a, b = case.diff.a, case.diff.b
        return [
            (x, y)
            for x, y in self.pairs.items()
            if is_input(a, x) and not is_scalar_input(a, x) and bare_shape(a, x) != bare_shape(b, y)
        ]

    def is_computed(self, case: Case) -> bool:
        """Whether more is done with the inputs than that they are converted."""
        return any(not is_input(case.diff.a, x) for x in self.pairs)

    def input_types(self, case: Case) -> set[tuple[str, str]]:
        """The types of its inputs in A and in B."""
        a, b = case.diff.a, case.diff.b
        return {
            (element_type(a.shapes[x]), element_type(b.shapes[y])) for x, y in self.inputs(case)
        }

    def types(self, case: Case) -> set[tuple[str, str]]:
        """The types in A and in B that differ."""
        a, b = case.diff.a, case.diff.b
        types = {
            (element_type(a.shapes[x]), element_type(b.shapes[y])) for x, y in self.pairs.items()
        }
        return {(old, new) for old, new in types if old != new}


def find(case: Case) -> list[Finding]:
    """One finding for inputs of another family of types, and for all that follows from it."""
    spreads = [found for edge in open_edges(case) if (found := _spread(case, edge))]
    main = [found for found in spreads if found.inputs(case) and found.is_computed(case)]
    given = {types for found in main for types in found.input_types(case)}
    if len(given) != 1 or not _are_unlike(*(types := next(iter(given)))):
        return []
    spreads = [found for found in spreads if _are_of(types, found.types(case))]
    return [_finding(case, spreads, types)] if _are_closed(case, spreads) else []


def _are_of(given: tuple[str, str], types: set[tuple[str, str]]) -> bool:
    """Whether types follow from those of the inputs: on one side work is done in the input's own.

    The other side may convert first: whole numbers to float32, where the fractions are float64.
    """
    return all(old == given[0] or new == given[1] for old, new in types)


def _are_unlike(old: str, new: str) -> bool:
    """Whole numbers and fractions: torch, numpy and pandas choose by the values."""
    return number_family(old) != number_family(new)


def _spread(case: Case, edge: Edge) -> _Spread | None:
    """What both sides use there, if it is one computation with other types; None if it is not."""
    a, b = case.diff.a, case.diff.b
    if edge.place == OUTPUT or bare_shape(a, edge.p) != bare_shape(b, edge.q):
        return None
    pairs: dict[int, int] = {}
    casts_a, casts_b = set[int](), set[int]()
    stack = [(edge.p, edge.q)]
    while stack:
        x, y = stack.pop()
        if pairs.get(x) == y:
            continue
        is_typed_a, is_typed_b = _converts(case, case.a, x), _converts(case, case.b, y)
        if is_typed_a != is_typed_b:
            stack.append((a.operands[x][0], y) if is_typed_a else (x, b.operands[y][0]))
            (casts_a if is_typed_a else casts_b).add(x if is_typed_a else y)
        elif case.a.partners[x] == y and a.shapes[x] == b.shapes[y]:
            continue
        elif x not in pairs and _are_alike(case, x, y):
            pairs[x] = y
            stack += zip(a.operands[x], b.operands[y], strict=True)
        else:
            return None
    return _Spread(edge, pairs, frozenset(casts_a), frozenset(casts_b))


def _converts(case: Case, view: SideView, i: int) -> bool:
    """Whether it is a conversion that the other side has not, or of another value."""
    if view.module.opcodes[i] != "convert":
        return False
    (below,), partner = view.module.operands[i], view.partners[i]
    other = case.b if view.is_a else case.a
    return partner < 0 or view.partners[below] not in other.module.operands[partner]


def _are_alike(case: Case, x: int, y: int) -> bool:
    """Whether two instructions differ in the type at most."""
    a, b = case.diff.a, case.diff.b
    first, second = (element_type(shape) for shape in (a.shapes[x], b.shapes[y]))
    if case.a.partners[x] != y and max(case.a.partners[x], case.b.partners[y]) >= 0:
        return False
    if (
        a.opcodes[x] != b.opcodes[y]
        or len(a.operands[x]) != len(b.operands[y])
        or a.attributes[x].items != b.attributes[y].items
        or x in a.callees
        or bare_shape(a, x).partition("[")[2] != bare_shape(b, y).partition("[")[2]
    ):
        return False
    if is_input(a, x):
        return bool(first and second) and not are_two(case.a, x, case.b, y)
    given = a.payloads.get(x, ""), b.payloads.get(y, "")
    return (
        same_number(*given, first, second) if a.opcodes[x] == "constant" else given[0] == given[1]
    )


def _are_closed(case: Case, spreads: list[_Spread]) -> bool:
    """Whether all that is done with these values is among them: else they are others."""
    for view in (case.a, case.b):
        own = {
            i for found in spreads for i in view.mine((set(found.pairs), set(found.pairs.values())))
        }
        casts = {i for found in spreads for i in view.mine((found.casts_a, found.casts_b))}
        known = own | casts | {found.edge.user(view) for found in spreads}
        live, module = view.matched.live, view.module
        if any(live[u] and u not in known for i in own for u in module.users[i]):
            return False
    return True


def _finding(case: Case, spreads: list[_Spread], types: tuple[str, str]) -> Finding:
    a, b = case.diff.a, case.diff.b
    pairs = {x: y for found in spreads for x, y in found.pairs.items()}
    casts_a = frozenset[int]().union(*(found.casts_a for found in spreads))
    casts_b = frozenset[int]().union(*(found.casts_b for found in spreads))
    inputs = sorted({pair for found in spreads for pair in found.inputs(case)})
    between = {x: y for x, y in pairs.items() if not is_input(a, x)}
    lines = where(b, [y for _, y in inputs]) or where(a, [x for x, _ in inputs])
    lines = lines or where(b, between.values()) or where(a, between)
    casts = len(casts_a) + len(casts_b)

    def undo(edit: Editors) -> None:
        for x, y in pairs.items():
            edit.a.shapes[x] = edit.b.shapes[y]
            if a.opcodes[x] == "constant":
                edit.a.payloads[x] = edit.b.payloads[y]
        edit.a.bypass(casts_a)
        edit.b.bypass(casts_b)

    return Finding(
        kind=DTYPE,
        title=say(
            "an input has" if len(inputs) == 1 else f"{count(len(inputs), 'input')} have",
            " another dtype (",
            Change(*types),
            "): ",
            join(origin(case, x, y) for x, y in inputs),
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    "what is computed from there has another type too (",
                    opcodes_in_words(b, between.values(), a),
                    f"), up to {count(casts, 'conversion')} on one side only" if casts else ")",
                ),
                tuple(sorted(pairs)),
                tuple(sorted(pairs.values())),
                lines,
            ),
        ),
        fix=FROM_VALUES.fix,
        short=inputs_in_short([short_shape(b, y) for _, y in inputs], {types}),
        short_fix=FROM_VALUES.short_fix,
        proof=say(
            A,
            "'s inputs, and what is computed of them, were given ",
            B,
            "'s types",
            ", and the conversions left out" if casts else "",
        ),
        a=frozenset(pairs) | casts_a,
        b=frozenset(pairs.values()) | casts_b,
        undo=undo,
        brings=brings,
    )


RULE = Rule(
    name="spread-dtype",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("input-dtype",),
    rematches=True,
)
