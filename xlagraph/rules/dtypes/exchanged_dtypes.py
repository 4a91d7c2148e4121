"""Inputs that took each other's dtypes: one is converted now, another one no longer.

The inputs of a batch have no names, and are paired by what they are. So a column that came as
integers is taken for the one that comes as integers now, and what joins them seems to take its
values in another order. With the types of converted inputs left out of account each is
where it was. So are columns of a table that come as integers in one batch and as fractions in
another, and are all made float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.same import same_named
from xlagraph.facts.pieces.casts import inputs_in_short
from xlagraph.message import Change, count, join, say
from xlagraph.rules.dtypes.dtype import DTYPE, FROM_VALUES, brings
from xlagraph.rules.dtypes.input_dtype import Converted, are_two, dtype_of, finding_of
from xlagraph.rules.order.reordered_operands import order_of_operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module

Casts = dict[int, tuple[int, ...]]
"""Input to the conversions that are all that is done with it."""


def find(case: Case) -> list[Finding]:
    """Inputs of other types on both sides, where nothing else differs."""
    if not any("operands" in fields for _, _, fields in case.open_changes()):
        return []
    casts_a, casts_b = _converted(case.a), _converted(case.b)
    if not (casts_a and casts_b):
        return []
    partners = _partners(case, casts_a, casts_b)
    retyped = {
        x: y
        for x, y in partners.items()
        if x in casts_a and y in casts_b and dtype_of(case.a, x) != dtype_of(case.b, y)
    }
    if retyped and _may_be_one(case, retyped, {}):
        return [_retyped(case, retyped, casts_a, casts_b)]
    back = {y: x for x, y in partners.items()}
    typed_b = {y: x for y, x in back.items() if y in casts_b and x not in casts_a}
    typed_a = {x: y for x, y in partners.items() if x in casts_a and y not in casts_b}
    if not (typed_a and typed_b and _may_be_one(case, typed_a, typed_b)):
        return []
    groups = Converted(case.b, case.a, typed_a), Converted(case.a, case.b, typed_b)
    return [finding_of(case, *groups, more=_other_reading(case))]


def _retyped(case: Case, pairs: Mapping[int, int], casts_a: Casts, casts_b: Casts) -> Finding:
    """Inputs that both sides convert to one type, and that came in others."""
    types = dict.fromkeys((dtype_of(case.a, x), dtype_of(case.b, y)) for x, y in pairs.items())
    lines = where(case.diff.b, pairs.values())

    def undo(edit: Editors) -> None:
        for editor, casts in ((edit.a, casts_a), (edit.b, casts_b)):
            _convert_before(editor, casts)

    claimed = [
        {*inputs, *(user for p in inputs for user in casts[p])}
        for inputs, casts in ((pairs.keys(), casts_a), (pairs.values(), casts_b))
    ]
    moved = [(x, y) for x, y, fields in case.open_changes() if "operands" in fields]
    a, b = claimed[0].union(x for x, _ in moved), claimed[1].union(y for _, y in moved)
    number = count(len(pairs), "input")
    return Finding(
        kind=DTYPE,
        title=say(
            "an input has" if len(pairs) == 1 else f"{number} have",
            " another dtype (",
            join(Change(old, new) for old, new in types),
            "), and all are converted to one",
            at(lines),
        ),
        evidence=(
            Evidence(
                say("with the types of converted inputs left out of account each is where it was"),
                tuple(sorted(a)),
                tuple(sorted(b)),
                lines,
            ),
            *_other_reading(case),
        ),
        fix=FROM_VALUES.fix,
        short=inputs_in_short([short_shape(case.diff.b, y) for y in pairs.values()], types),
        short_fix=FROM_VALUES.short_fix,
        proof=say("the inputs of both were given the type that they are converted to"),
        a=frozenset(a),
        b=frozenset(b),
        undo=undo,
        brings=brings,
    )


def _other_reading(case: Case) -> tuple[Evidence, ...]:
    """What else makes the same two graphs: where inputs have no names, nothing tells."""
    moved = [(x, y) for x, y in case.changed_alone("operands") if order_of_operands(case, x, y)]
    if not moved:
        return ()
    lines = where(case.diff.b, [y for _, y in moved])
    text = say("the same values in another order", at(lines), " would make the same two graphs")
    return (Evidence(text, tuple(x for x, _ in moved), tuple(y for _, y in moved)),)


def _converted(view: SideView) -> Casts:
    """The inputs that are only converted, all to one type."""
    module, live = view.module, view.matched.live
    found: Casts = {}
    for p in module.entry_computation.parameters:
        users = tuple(u for u in module.users[p] if live[u])
        if (
            users
            and all(module.opcodes[u] == "convert" for u in users)
            and len({bare_shape(module, u) for u in users}) == 1
        ):
            found[p] = users
    return found


def _partners(case: Case, casts_a: Casts, casts_b: Casts) -> Mapping[int, int]:
    """A's inputs to B's, if both are one computation with these inputs converted beforehand."""
    a, b = _converted_before(case.diff.a, casts_a), _converted_before(case.diff.b, casts_b)
    pairs = same_named(a, b, case.diff.match.known)
    if pairs is None:
        return {}
    inputs = case.diff.a.entry_computation.parameters
    return {p: pairs.instructions[p] for p in inputs if pairs.instructions[p] >= 0}


def _converted_before(module: Module, casts: Casts) -> Module:
    editor = ModuleEditor(module)
    _convert_before(editor, casts)
    return editor.build()


def _convert_before(editor: ModuleEditor, casts: Casts) -> None:
    for p, users in casts.items():
        editor.shapes[p] = editor.shapes[users[0]]
    editor.bypass(sorted(u for users in casts.values() for u in users))


def _may_be_one(case: Case, typed_a: Mapping[int, int], typed_b: Mapping[int, int]) -> bool:
    """Whether neither names nor lines tell any two apart that would have to be one input."""
    pairs = [*typed_a.items(), *((x, y) for y, x in typed_b.items())]
    return not any(are_two(case.a, x, case.b, y) or _made_elsewhere(case, x, y) for x, y in pairs)


def _made_elsewhere(case: Case, x: int, y: int) -> bool:
    first, second = where(case.diff.a, [x]), where(case.diff.b, [y])
    return bool(first and second and first[0] != second[0])


RULE = Rule(
    name="exchanged-dtypes",
    kinds=(),
    find=find,
    after=("rematerialization",),
    before=("reordered-operands",),
    rematches=True,
)
