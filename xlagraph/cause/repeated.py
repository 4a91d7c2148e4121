"""Detectors for expressions that stand more often on one side than on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner, label_instructions
from xlagraph.canon.live import DRAWS, has_effect
from xlagraph.canon.structure import expression_number, number_computations
from xlagraph.cause.finding import Case, Finding, count
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import open_edges
from xlagraph.cause.places import where

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def repeated_expression(case: Case) -> list[Finding]:
    """An expression stands twice where the other module has it once: equal after CSE.

    Not where the other module uses another value in its place: there more differs than copies.
    """
    a, b = case.diff.a, case.diff.b
    loose = set(case.diff.removed) - case.claimed_a or set(case.diff.added) - case.claimed_b
    if not loose and not any(fields == ("operands",) for _, _, fields in case.open_changes()):
        return []
    if not (_is_lone_in_entry(case) or any(f == ("operands",) for _, _, f in case.open_changes())):
        return []
    numbers_a, numbers_b = _value_numbers(case)
    claimed_a: set[int] = set()
    claimed_b: set[int] = set()
    for x, y, fields in case.open_changes():
        below_a, below_b = a.operands[x], b.operands[y]
        if not (fields == ("operands",) and x in numbers_a and y in numbers_b):
            continue
        if [numbers_a[o] for o in below_a] == [numbers_b[o] for o in below_b]:
            claimed_a.add(x)
            claimed_b.add(y)
    known_a, known_b = set(numbers_a.values()), set(numbers_b.values())
    other = [e for e in open_edges(case) if numbers_a.get(e.p) != numbers_b.get(e.q)]
    used_a, used_b = {e.p for e in other} | case.claimed_a, {e.q for e in other} | case.claimed_b
    copies_a = {x for x in case.diff.removed if numbers_a.get(x) in known_b} - used_a
    copies_b = {y for y in case.diff.added if numbers_b.get(y) in known_a} - used_b
    if not (claimed_a or copies_a or copies_b):
        return []
    number = len(copies_a) + len(copies_b) or len(claimed_a)
    lines = where(b, copies_b) or where(a, copies_a)
    return [
        Finding(
            kind="repeated-expression",
            title=f"{count(number, 'instruction')} {'stands' if number == 1 else 'stand'} more "
            "often in one module than in the other; the value is the same",
            evidence=(
                Evidence(
                    "equal expressions that one side computes once and the other twice",
                    tuple(sorted(copies_a)),
                    tuple(sorted(copies_b)),
                    lines,
                ),
            ),
            fix="Trace the same in every step: a view or a copy that is made in some steps only "
            "leaves the value as it is, yet it is part of the cache key.",
            proof="equal expressions were merged in both modules",
            a=frozenset(claimed_a | copies_a),
            b=frozenset(claimed_b | copies_b),
            undo=_merge_both,
            incidental=True,
        )
    ]


def _is_lone_in_entry(case: Case) -> bool:
    """Whether either entry computation has instructions of its own that nothing claimed."""
    entry_a, entry_b = case.diff.a.entry_computation, case.diff.b.entry_computation
    return any(
        entry.start <= i < entry.stop
        for entry, lone in (
            (entry_a, set(case.diff.removed) - case.claimed_a),
            (entry_b, set(case.diff.added) - case.claimed_b),
        )
        for i in lone
    )


def _merge_both(draft_a: Draft, draft_b: Draft) -> None:
    merge_expressions(draft_a)
    merge_expressions(draft_b)


def merge_expressions(draft: Draft) -> None:
    """Common-subexpression elimination of the entry computation, in place."""
    module = draft.build()
    interner = Interner()
    labels = list(label_instructions(module, interner))
    entry = module.entry_computation
    for number, p in enumerate(entry.parameters):
        if module.opcodes[p] == "parameter":
            labels[p] = interner.number(("parameter", number))
    computations = number_computations(module, labels, interner)
    expressions = [-1] * len(module)
    first: dict[int, int] = {}
    partners: dict[int, int] = {}
    for i in range(entry.start, entry.stop):
        expressions[i] = expression_number(
            module, i, labels[i], expressions, computations, interner
        )
        kept = first.setdefault(expressions[i], i)
        if kept != i and not _counts(module, i):
            partners[i] = kept
    draft.replace_uses(partners)


def _counts(module: Module, i: int) -> bool:
    """Whether it matters how often an instruction runs: it draws numbers, or acts on the world."""
    return module.opcodes[i] in DRAWS or has_effect(module, i)


def _value_numbers(case: Case) -> tuple[dict[int, int], dict[int, int]]:
    """Numbers of values: equal where the same expression takes the same paired parameters."""
    match = case.diff.match
    interner = Interner()
    found = []
    for side, partners, forward in ((match.a, match.to_b, True), (match.b, match.to_a, False)):
        module = side.module
        labels = list(side.labels)
        entry = module.entry_computation
        for p in entry.parameters:
            pair = (p, partners[p]) if forward else (partners[p], p)
            labels[p] = -1 - interner.number(("parameter", *pair))  # no instruction's label
        numbers: dict[int, int] = {}
        for i in range(entry.start, entry.stop):
            numbers[i] = expression_number(
                module, i, labels[i], numbers, side.computations, interner
            )
            if _counts(module, i):
                numbers[i] = interner.number(("once", forward, i))
        found.append(numbers)
    return found[0], found[1]
