"""Values whose axes stand in another order: the sizes are the same ones, exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, operations, where
from xlagraph.facts.pieces.pieces import Groups, with_placeless
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Change, count, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.message import SourceLine

FIELDS = frozenset({"attributes", "shape", "layout"})
FORMS = frozenset({"bitcast", "broadcast", "reshape"})
"""What gives a value other axes; a sum, a join or a transposition along others says so itself."""
EXCHANGED_AXES = Kind(
    id="exchanged-axes",
    title="A value's axes stand in another order",
    section=Section.VALUES,
    meaning="A reshape, unsqueeze, expand or stack along another dimension: the sizes are the same "
    "ones in another order, and so is what comes in. Heads that are repeated in turn in place of "
    "each beside itself, channels first or last.",
    before="""\
for step, (x, y) in enumerate(loader):
    axis = 1 + step % 2
    sizes = (8, 2, 4) if axis == 1 else (8, 4, 2)
    twice = model(x).unsqueeze(axis).expand(sizes).reshape(8, 8)
    update(twice[:, :4].pow(2).mean())
""",
    after="""\
for x, y in loader:
    twice = model(x).unsqueeze(1).expand(8, 2, 4).reshape(8, 8)
    update(twice[:, :4].pow(2).mean())
""",
    evidence="The first of these values with its sizes on both sides.",
    fix="Keep the axes in one order in every step: the same reshape, view, unsqueeze, expand or "
    "stack, with the same dim.",
    proof="A's values get the axes of B's.",
    examples=("heads_tiled",),
    short_fix="Keep the order of the axes the same in every step.",
)
MAX_CITED = 50

Pairs = list[tuple[int, int]]


def find(case: Case) -> list[Finding]:
    """Pairs that take in the same values and whose axes are exchanged, by what they have in common.

    What else differs there may only be options, as the axes of a sum that follow from it. Sizes
    that are others, or an input that comes otherwise, are another cause.
    """
    pairs = [(x, y) for x, y, fields in case.open_changes() if FIELDS.issuperset(fields)]
    return [
        _finding(case, group)
        for group in _groups(case, pairs)
        if any(_sizes(case, pair) for pair in group)
        and all(_is_exchanged(case, pair) for pair in group)
        and case.diff.a.opcodes[min(group)[0]] in FORMS
    ]


def _sizes(case: Case, pair: tuple[int, int]) -> list[tuple[int, int, int]]:
    x, y = pair
    return changed_sizes(case.diff.a.shapes[x], case.diff.b.shapes[y])


def _is_exchanged(case: Case, pair: tuple[int, int]) -> bool:
    """Whether a pair has the same sizes, in any order; an input's order is the caller's."""
    a, b = case.diff.a, case.diff.b
    x, y = pair
    old, new = read_shape(a.shapes[x]), read_shape(b.shapes[y])
    if old.is_tuple or new.is_tuple or a.opcodes[x] == "parameter":
        return False
    return sorted(old.dimensions) == sorted(new.dimensions)


def _groups(case: Case, pairs: Pairs) -> list[Pairs]:
    """Pairs that take each other in, or come from one line."""
    a, b = case.diff.a, case.diff.b
    groups = Groups(len(pairs))
    numbers = {x: k for k, (x, _) in enumerate(pairs)}
    lines: dict[SourceLine, int] = {}
    for k, (x, y) in enumerate(pairs):
        for o in a.operands[x]:
            groups.join(numbers.get(o, k), k)
        for line in where(b, [y]):
            groups.join(lines.setdefault(line.forward, k), k)
    parts = with_placeless(case, groups.members(), lines.values())
    return [[pairs[k] for k in members] for members in parts]


def _finding(case: Case, pairs: Pairs) -> Finding:
    a, b = case.diff.a, case.diff.b
    in_b = [y for _, y in pairs]
    lines = where(b, in_b)
    x, y = next(pair for pair in sorted(pairs) if _sizes(case, pair))
    first = say(a.opcodes[x], " ", Change(short_shape(a, x), short_shape(b, y), "became"))

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            edit.a.attributes[p] = b.attributes[q]
            edit.a.shapes[p] = b.shapes[q]

    return Finding(
        kind=EXCHANGED_AXES,
        title=say(
            f"the axes of {count(len(pairs), 'value')}",
            operations(b, in_b),
            " stand in another order",
            at(lines),
            ": ",
            first,
        ),
        evidence=(
            Evidence(
                say("the sizes are the same, and so is what comes in"),
                tuple(sorted(p for p, _ in pairs))[:MAX_CITED],
                tuple(sorted(in_b))[:MAX_CITED],
                lines,
            ),
        ),
        proof=say(A, "'s values were given the axes of ", B, "'s"),
        a=frozenset(p for p, _ in pairs),
        b=frozenset(in_b),
        undo=undo,
    )


RULE = Rule(
    name="exchanged-axes",
    kinds=(EXCHANGED_AXES,),
    find=find,
    after=("dtype",),
    before=("sizes",),
)
