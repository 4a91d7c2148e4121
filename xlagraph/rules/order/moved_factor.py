"""A factor that is multiplied at another place: attention's scale, onto queries or onto scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.scalars import is_one
from xlagraph.message import A, B, HloName, count, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Message

SCALING = ("multiply", "divide")
MAX_CITED = 50
SHORT = say("A factor is multiplied at another place")
SHORT_FIX = say("Scale the same value in every step.")
FIX = say(
    "Multiply by the factor at one place in every step: before a product or behind it, in one "
    "function. Both give the same value but for rounding, and are two graphs."
)


class _Scaled(NamedTuple):
    """One operation by a factor."""

    i: int
    value: int
    """The place of the operand that is scaled."""
    factor: int
    """The scalar."""


def find(case: Case) -> list[Finding]:
    """As many operations by one factor on both sides, on other values: one finding a factor."""
    groups_a, groups_b = _groups(case, case.a), _groups(case, case.b)
    return [
        _finding(case, groups_a[key], groups_b[key])
        for key in groups_a
        if len(groups_a[key]) == len(groups_b.get(key, ()))
        and _shapes(case.a, groups_a[key]) != _shapes(case.b, groups_b[key])
    ]


def _groups(case: Case, view: SideView) -> dict[Hashable, list[_Scaled]]:
    """What one side scales where the other does not, by operation and factor."""
    changed = [view.mine((x, y)) for x, y, _ in case.open_changes()]
    found: dict[Hashable, list[_Scaled]] = {}
    for i in sorted((*changed, *view.open_lone())):
        scaled = _scaled(view, i)
        if scaled and _is_unscaled(case, view, scaled):
            key = (view.module.opcodes[i], _identity(view, scaled.factor))
            found.setdefault(key, []).append(scaled)
    return found


def _scaled(view: SideView, i: int) -> _Scaled | None:
    """The operation as one by a scalar that is broadcast to the shape of the other operand."""
    module = view.module
    operands, entry = module.operands[i], module.entry_computation
    if module.opcodes[i] not in SCALING or not entry.start <= i < entry.stop:
        return None
    for value in (0, 1) if module.opcodes[i] == "multiply" else (0,):
        spread = operands[1 - value]
        if (
            module.opcodes[spread] == "broadcast"
            and not is_one(module, spread)  # as torch_xla scales by whatever alpha is
            and "[]" in bare_shape(module, module.operands[spread][0])
            and bare_shape(module, operands[value]) == bare_shape(module, i)
        ):
            return _Scaled(i, value, module.operands[spread][0])
    return None


def _is_unscaled(case: Case, view: SideView, scaled: _Scaled) -> bool:
    """Whether the other side has the same value, and does something else with it."""
    other = case.b if view.is_a else case.a
    own = view.module.operands[scaled.i][scaled.value]
    partner, user = view.partners[own], view.partners[scaled.i]
    return (
        partner >= 0
        and bare_shape(view.module, own) == bare_shape(other.module, partner)
        and (user < 0 or partner not in other.module.operands[user])
    )


def _identity(view: SideView, factor: int) -> Hashable:
    """What names a factor on both sides: a pair of values, or a number."""
    module, partner = view.module, view.partners[factor]
    if module.opcodes[factor] == "constant":
        return module.payloads[factor]
    return view.ab(factor, partner) if partner >= 0 else (view.side, factor)


def _shapes(view: SideView, group: Iterable[_Scaled]) -> list[str]:
    return sorted(bare_shape(view.module, one.i) for one in group)


def _finding(case: Case, group_a: list[_Scaled], group_b: list[_Scaled]) -> Finding:
    a, b = case.a, case.b
    own_a, own_b = tuple(one.i for one in group_a), tuple(one.i for one in group_b)
    lines = where(b.module, own_b) or where(a.module, own_a)
    first_a, first_b = group_a[0], group_b[0]
    times = "" if len(group_a) == 1 else f", at {count(len(group_a), 'place')}"

    def undo(edit: Editors) -> None:
        for editor, group in ((edit.a, group_a), (edit.b, group_b)):
            for i, value, _ in group:
                editor.replace_uses({i: editor.operands[i][value]})

    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(
            "a factor is multiplied at another place" if a.module.opcodes[own_a[0]] == "multiply"
            else "a value is divided at another place",
            at(lines),
            ": ",
            _factor(b, first_b.factor),
            " onto ", _value(a, first_a), " in ", A, ", onto ", _value(b, first_b), " in ", B,
            times,
        ),
        evidence=(
            Evidence(
                say(f"{count(len(group_a), 'operation')} on each side, by one factor"),
                own_a[:MAX_CITED],
                own_b[:MAX_CITED],
                lines,
            ),
        ),
        fix=FIX,
        short=SHORT,
        short_fix=SHORT_FIX,
        proof=say("the factor was left out at these places, in ", A, " and in ", B),
        a=frozenset(own_a) | _spread(a, group_a),
        b=frozenset(own_b) | _spread(b, group_b),
        undo=undo,
    )  # fmt: skip


def _spread(view: SideView, group: Iterable[_Scaled]) -> frozenset[int]:
    """The broadcasts of the factor that only these operations use."""
    module, own = view.module, {one.i for one in group}
    spread = {module.operands[one.i][1 - one.value] for one in group}
    return frozenset(i for i in spread if own.issuperset(module.users[i]))


def _factor(view: SideView, i: int) -> Message:
    module = view.module
    if i in module.entry_computation.parameters:
        return parameter_name(view, i)
    if module.opcodes[i] == "constant":
        return say(str(module.payloads[i]))
    return say(HloName(module.names[i], module.opcodes[i]))


def _value(view: SideView, scaled: _Scaled) -> Message:
    """The value that is scaled, with its shape."""
    module = view.module
    i = module.operands[scaled.i][scaled.value]
    return say(HloName(module.names[i], module.opcodes[i]), f" ({short_shape(module, i)})")


RULE = Rule(
    name="moved-factor",
    kinds=(),
    find=find,
    after=("other-generator",),
    before=("loop-carry",),
    rematches=True,
)
