"""One function of a value in one module, another in the other: activations, with derivatives.

Two functions have factors and sums in common, which pair as they may; so all between the value
and where it is used is taken for one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.one_variable import TELLING, swapped_functions, with_numbers
from xlagraph.facts.values.telling import computed_with, opcodes_in_words
from xlagraph.message import A, B, count, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.one_variable import Swapped
    from xlagraph.graph import Module


def find(case: Case) -> list[Finding]:
    """Functions of values that both have, one finding for all that change alike.

    One layer may have its derivative in the module, and another, which is frozen, not.
    """
    groups: list[list[Swapped]] = []
    for one in sorted(swapped_functions(case), key=lambda one: -sum(map(len, _forms(case, one)))):
        home = next((group for group in groups if _is_like(case, one, group[0])), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return [_finding(case, group) for group in groups]


def _is_like(case: Case, one: Swapped, known: Swapped) -> bool:
    pairs = zip(_forms(case, one), _forms(case, known), strict=True)
    return all(form <= whole for form, whole in pairs)


def _forms(case: Case, one: Swapped) -> tuple[frozenset[str], frozenset[str]]:
    return _form(case.diff.a, one.a), _form(case.diff.b, one.b)


def _form(module: Module, piece: Iterable[int]) -> frozenset[str]:
    return TELLING.intersection(module.opcodes[i] for i in piece)


def _finding(case: Case, group: Sequence[Swapped]) -> Finding:
    a, b = case.diff.a, case.diff.b
    piece_a = frozenset[int]().union(*(one.a for one in group))
    piece_b = frozenset[int]().union(*(one.b for one in group))
    lines = where(b, piece_b) or where(a, piece_a)
    what = count(len(group), "value")
    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(
            f"another function of {what} is computed", at(lines), ": ",
            opcodes_in_words(a, set(piece_a), b), " in ", A, ", ",
            opcodes_in_words(b, set(piece_b), a), " in ", B,
        ),
        evidence=(
            Evidence(
                say(f"what differs is computed from {what}, and numbers, alone"),
                tuple(sorted(piece_a))[:50],
                tuple(sorted(piece_b))[:50],
                lines,
            ),
        ),
        short=computed_with(case.diff, set(piece_a), set(piece_b)),
        proof=say("both functions were replaced by one of the same value"),
        a=with_numbers(a, piece_a),
        b=with_numbers(b, piece_b),
        undo=partial(_undo, group),
    )  # fmt: skip


def _undo(group: Sequence[Swapped], edit: Editors) -> None:
    for one in group:
        x, y = one.of
        for number, (p, q) in enumerate(sorted(one.ends)):
            edit.a.become_undone(p, (x,), f"{number}")
            edit.b.become_undone(q, (y,), f"{number}")


RULE = Rule(
    name="other-function",
    kinds=(),
    find=find,
    after=("rematerialization",),
    before=("exchanged-dtypes",),
)
