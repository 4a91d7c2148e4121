"""Detectors for pieces of graph: repeated, inserted, replaced, or run early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner, label_instructions
from xlagraph.canon.structure import expression_number, number_computations
from xlagraph.cause.finding import Case, Finding, count
from xlagraph.cause.finding import short_shape as shape_of
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def repeated_expression(case: Case) -> list[Finding]:
    """An expression stands twice where the other module has it once: equal after CSE."""
    a, b = case.diff.a, case.diff.b
    numbers_a, numbers_b = _value_numbers(case)
    claimed_a: set[int] = set()
    claimed_b: set[int] = set()
    for x, y, fields in case.open_changes():
        below_a, below_b = a.operands[x], b.operands[y]
        if fields == ("operands",) and [numbers_a.get(o) for o in below_a] == [
            numbers_b.get(o) for o in below_b
        ]:
            claimed_a.add(x)
            claimed_b.add(y)
    known_a, known_b = set(numbers_a.values()), set(numbers_b.values())
    copies_a = {x for x in case.diff.removed if numbers_a.get(x) in known_b} - case.claimed_a
    copies_b = {y for y in case.diff.added if numbers_b.get(y) in known_a} - case.claimed_b
    if not (claimed_a or copies_a or copies_b):
        return []
    copies = len(copies_a) + len(copies_b)
    lines = where(b, copies_b) or where(a, copies_a)
    return [
        Finding(
            kind="repeated-expression",
            title=f"{count(copies or len(claimed_a), 'instruction')} stand more often in one "
            "module than in the other; the value is the same",
            evidence=(
                Evidence(
                    "equal expressions that one side computes once and the other twice",
                    tuple(sorted(copies_a)),
                    tuple(sorted(copies_b)),
                    lines,
                ),
            ),
            fix="Harmless: torch_xla's cache key does not tell shared values from repeated ones.",
            proof="equal expressions were merged in both modules",
            a=frozenset(claimed_a | copies_a),
            b=frozenset(claimed_b | copies_b),
            undo=_merge_both,
            incidental=True,
        )
    ]


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
        if kept != i and module.opcodes[i] != "rng":
            partners[i] = kept
    draft.replace_uses(partners)


def _value_numbers(case: Case) -> tuple[dict[int, int], dict[int, int]]:
    """Numbers of values: equal where the same expression takes the same paired parameters."""
    match = case.diff.match
    interner = Interner()
    found = []
    for side, partners, forward in ((match.a, match.to_b, True), (match.b, match.to_a, False)):
        module = side.module
        labels = list(label_instructions(module, interner))
        entry = module.entry_computation
        for p in entry.parameters:
            pair = (p, partners[p]) if forward else (partners[p], p)
            labels[p] = interner.number(("parameter", *pair))
        computations = number_computations(module, labels, interner)
        numbers: dict[int, int] = {}
        for i in range(entry.start, entry.stop):
            numbers[i] = expression_number(module, i, labels[i], numbers, computations, interner)
            if module.opcodes[i] == "rng":
                numbers[i] = interner.number(("once", forward, i))
        found.append(numbers)
    return found[0], found[1]


def inserted(case: Case) -> list[Finding]:
    """One side computes something more on the way, and hands the result on in its place."""
    findings = []
    for forward in (False, True):
        finding = _inserted(case, forward=forward)
        if finding:
            findings.append(finding)
    return findings


def _inserted(case: Case, *, forward: bool) -> Finding | None:
    """`forward`: A has the extra piece; otherwise B."""
    match = case.diff.match
    more, less = (match.a, match.b) if forward else (match.b, match.a)
    to_more = match.to_a if forward else match.to_b
    to_less = match.to_b if forward else match.to_a
    rewired: dict[tuple[int, int], int] = {}
    users: set[tuple[int, int]] = set()
    for x, y, fields in case.open_changes():
        if fields != ("operands",):
            continue
        own, other = (x, y) if forward else (y, x)
        below, wanted = more.module.operands[own], less.module.operands[other]
        if len(below) != len(wanted):
            continue
        for k, (p, q) in enumerate(zip(below, wanted, strict=True)):
            if to_less[p] != q and to_less[p] < 0 and to_more[q] >= 0:
                rewired[own, k] = to_more[q]
                users.add((x, y))
    if not rewired:
        return None
    piece = _piece(case, more.module, rewired, to_less)
    lines = where(more.module, piece)
    side, other_side = ("A", "B") if forward else ("B", "A")
    changed_a, changed_b = {x for x, _ in users}, {y for _, y in users}

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        draft = draft_a if forward else draft_b
        for (i, k), replacement in rewired.items():
            operands = list(draft.operands[i])
            operands[k] = replacement
            draft.operands[i] = tuple(operands)

    return Finding(
        kind="extra-subgraph",
        title=f"{side} computes {count(len(piece), 'instruction')} more than {other_side}{at(lines)} "
        f"before {count(len(users), 'instruction')} that both have",
        evidence=(
            Evidence(
                f"{side} puts {count(len(piece), 'instruction')} between values that "
                f"{other_side} connects directly",
                tuple(sorted(piece if forward else changed_a))[:50],
                tuple(sorted(changed_b if forward else piece))[:50],
                lines,
            ),
        ),
        fix="Control flow in Python took another branch here (clipping, a train/eval flip, a "
        "condition on the step): do the same work in every step, for example with torch.where.",
        proof=f"the {count(len(piece), 'extra instruction')} of {side} were bypassed",
        a=frozenset((piece if forward else set()) | changed_a),
        b=frozenset((set() if forward else piece) | changed_b),
        undo=undo,
    )


def _piece(
    case: Case,
    module: Module,
    rewired: dict[tuple[int, int], int],
    partners: object,
) -> set[int]:
    """The unpaired instructions that the rewired operands stand for."""
    to_other: list[int] = partners  # type: ignore[assignment]
    claimed = case.claimed_a if module is case.diff.a else case.claimed_b
    stack = [module.operands[i][k] for i, k in rewired]
    found: set[int] = set()
    while stack:
        i = stack.pop()
        if i in found or to_other[i] >= 0 or i in claimed:
            continue
        found.add(i)
        stack.extend(module.operands[i])
    return found


def replaced(case: Case) -> list[Finding]:
    """A value is computed in one way by A and in another by B; the rest is the same."""
    match = case.diff.match
    cuts: list[tuple[int, int, int, int, int]] = []
    for x, y, fields in case.open_changes():
        below_a, below_b = case.diff.a.operands[x], case.diff.b.operands[y]
        if fields != ("operands",) or len(below_a) != len(below_b):
            continue
        for k, (p, q) in enumerate(zip(below_a, below_b, strict=True)):
            if (
                match.to_b[p] < 0
                and match.to_a[q] < 0
                and case.diff.a.shapes[p] == case.diff.b.shapes[q]
            ):
                cuts.append((x, y, k, p, q))
    if not cuts:
        return []
    pairs = sorted({(p, q) for _, _, _, p, q in cuts})
    piece_a = _piece(case, case.diff.a, {(x, k): p for x, _, k, p, _ in cuts}, match.to_b)
    piece_b = _piece(case, case.diff.b, {(y, k): q for _, y, k, _, q in cuts}, match.to_a)
    early = all(
        case.diff.a.opcodes[p] == "parameter" or case.diff.b.opcodes[q] == "parameter"
        for p, q in pairs
    )
    lines = where(case.diff.b, piece_b) or where(case.diff.a, piece_a)
    shapes = shape_of(case.diff.a, pairs[0][0])

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for p, q in pairs:
            for draft, i in ((draft_a, p), (draft_b, q)):
                if draft.opcodes[i] != "parameter":
                    draft.become_parameter([i], draft.shapes[i])

    return [
        Finding(
            kind="early-execution" if early else "replaced-subgraph",
            title=(
                f"{count(len(pairs), 'value')} that one module computes came ready-made into the "
                f"other ({shapes}){at(lines)}: part of the graph ran early"
                if early
                else f"{count(len(pairs), 'value')} ({shapes}) "
                f"{'is' if len(pairs) == 1 else 'are'} computed in another way{at(lines)}: "
                f"{count(len(piece_a), 'instruction')} of A against {len(piece_b)} of B"
            ),
            evidence=(
                Evidence(
                    "the two pieces end in values that the rest of both modules uses alike",
                    tuple(sorted(piece_a))[:50],
                    tuple(sorted(piece_b))[:50],
                    lines,
                ),
            ),
            fix="A value was read (.item(), print, a Python if on a tensor) and the graph was cut "
            "there: read it after the sync, or in every step."
            if early
            else "Control flow in Python took another branch here: make the choice on the device "
            "(torch.where), or make it the same in every step.",
            proof="both pieces were replaced by one parameter each",
            a=frozenset(piece_a | {x for x, *_ in cuts}),
            b=frozenset(piece_b | {y for _, y, *_ in cuts}),
            undo=undo,
        )
    ]
