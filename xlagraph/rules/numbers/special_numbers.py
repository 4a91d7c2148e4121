"""Python numbers of which some are 0, 1 or -1 now, and others no longer.

Gates, loss weights, coefficients: those that are special are constants of the graph, and equal
ones of the rest share one parameter. Where some become special as others cease to be, the same
parameters and constants are there on both sides, for other numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import Editors, ModuleEditor
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.same import same_named
from xlagraph.facts.values.scalars import number_of
from xlagraph.message import Quoted, count, join, say
from xlagraph.rules.numbers.scalar_argument import SPECIAL, SPECIAL_SCALAR, special_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.message import Message


class Use(NamedTuple):
    """An operation of both sides that takes other numbers on one side than on the other."""

    x: int
    y: int
    places: tuple[int, ...]
    """Of the operands that are numbers."""
    label: int
    """What it is, apart from its operands."""
    numbers: tuple[tuple[int, int], ...]
    """Where these come from in A and in B: inputs, or constants."""


def find(case: Case) -> list[Finding]:
    """Numbers that changed places between inputs and constants, where nothing else differs."""
    uses = _uses(case)
    if not (uses and _is_exchange(case, uses) and _explains_all(case, uses)):
        return []
    return [_finding(case, uses)]


def _uses(case: Case) -> list[Use]:
    """The operations that take other numbers; none if any takes another value that is none."""
    a, b = case.diff.a, case.diff.b
    found = []
    for x, y in case.changed_alone("operands"):
        below_a, below_b = a.operands[x], b.operands[y]
        pairs = list(zip(below_a, below_b, strict=False))
        places = tuple(k for k, (p, q) in enumerate(pairs) if case.a.partners[p] != q)
        numbers = []
        for p, q in (pairs[k] for k in places):
            mine, theirs = number_of(a, p), number_of(b, q)
            if mine is None or theirs is None or bare_shape(a, p) != bare_shape(b, q):
                return []
            numbers.append((mine, theirs))
        if len(below_a) != len(below_b) or x in a.callees:
            return []
        found.append(Use(x, y, places, case.a.matched.plain[x], tuple(numbers)))
    return found + [
        Use(x, y, (), case.a.matched.plain[x], ((x, y),))
        for x, y in case.changed_alone("payload")
        if number_of(a, x) == x and _is_special(case.a, x) and _is_special(case.b, y)
    ]


def _is_exchange(case: Case, uses: Sequence[Use]) -> bool:
    """Whether a number is special on one side only, and more differs than that."""
    pairs = {pair for use in uses for pair in use.numbers}
    became = {
        (case.a.module.opcodes[p] == "constant", case.b.module.opcodes[q] == "constant")
        for p, q in pairs
        if _is_special(case.a, p) or _is_special(case.b, q)
    }
    becoming, ceasing = (False, True) in became, (True, False) in became
    kept = any(
        view.module.opcodes[one] == "parameter" and view.partners[one] >= 0
        for pair in pairs
        for view, one in zip((case.a, case.b), pair, strict=True)
    )
    return (becoming or ceasing) and (kept or len(became) > 1)


def _is_special(view: SideView, i: int) -> bool:
    module = view.module
    return module.opcodes[i] == "constant" and module.payloads[i] in SPECIAL


def _undo(uses: Sequence[Use], edit: Editors) -> None:
    """Leaves the numbers out: what takes one stands for any operation of the rest with a number."""
    for use in uses:
        for editor, i in ((edit.a, use.x), (edit.b, use.y)):
            rest = [o for k, o in enumerate(editor.operands[i]) if k not in use.places]
            if rest:
                editor.become_undone(i, rest, f"{use.label} {use.places}")
            else:
                editor.become_parameter([i], editor.shapes[i])


def _explains_all(case: Case, uses: Sequence[Use]) -> bool:
    edit = Editors(ModuleEditor(case.diff.a), ModuleEditor(case.diff.b))
    _undo(uses, edit)
    return same_named(edit.a.build(), edit.b.build(), case.diff.match.known) is not None


def _finding(case: Case, uses: Sequence[Use]) -> Finding:
    a, b = case.diff.a, case.diff.b
    own_a = {use.x for use in uses} | _lone(case.a, [p for use in uses for p, _ in use.numbers])
    own_b = {use.y for use in uses} | _lone(case.b, [q for use in uses for _, q in use.numbers])
    lines = where(b, [use.y for use in uses]) or where(a, [use.x for use in uses])
    pairs = dict.fromkeys(pair for use in uses for pair in use.numbers)
    special = [p for p in pairs if _is_special(case.a, p[0]) != _is_special(case.b, p[1])]
    became = join(
        dict.fromkeys(say(_named(case.a, p), " became ", _named(case.b, q)) for p, q in special), 4
    )
    text = say(
        "torch_xla lowers the Python scalars 0, 1 and -1 as constants and all others as "
        f"parameters, equal ones as one; {count(len(uses), 'instruction')} take other numbers so"
    )
    words = special_words(case, lines, [(use.x, use.y) for use in uses])
    return Finding(
        kind=SPECIAL_SCALAR,
        title=say("Python numbers took special values: ", became, at(lines)),
        evidence=(Evidence(text, tuple(sorted(own_a)), tuple(sorted(own_b)), lines),),
        fix=words.fix,
        short_fix=words.short_fix,
        proof=say("the numbers were left out of what takes them, on both sides"),
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=lambda edit: _undo(uses, edit),
    )


def _named(view: SideView, i: int) -> Message:
    module = view.module
    if module.opcodes[i] == "constant":
        return say("the constant ", Quoted(module.payloads[i]))
    return parameter_name(view, i)


def _lone(view: SideView, numbers: Sequence[int]) -> set[int]:
    return {i for i in numbers if view.partners[i] < 0}


RULE = Rule(
    name="special-numbers",
    kinds=(),
    find=find,
    after=("reordered-sum",),
    before=("reordered-operands",),
    rematches=True,
)
