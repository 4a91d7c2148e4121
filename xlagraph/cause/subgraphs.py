"""Detectors for pieces of graph: inserted, replaced, or run early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.live import has_effect
from xlagraph.cause.draft import called_only_by, is_input
from xlagraph.cause.finding import Case, Finding, count, short_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import OUTPUT, Edge, open_edges, piece_of, pieces
from xlagraph.cause.places import at, operations, where
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module

BRANCH_FIX = (
    "Control flow in Python took another branch here (clipping, a train/eval flip, a condition on "
    "the step): do the same work in every step, for example with torch.where."
)
EARLY_FIX = (
    "The graph was cut there by a sync of its own or by reading a value (.item(), print, a Python "
    "if on a tensor): leave that out, do it after the step's sync, or do it in every step."
)


def inserted(case: Case) -> list[Finding]:
    """One side computes something more on the way, and hands the result on in its place."""
    edges = open_edges(case)
    return [
        _inserted_finding(case, group, forward=forward)
        for forward in (False, True)
        for group in pieces(case, _bypassed(case, edges, forward=forward))
    ]


def _bypassed(case: Case, edges: Sequence[Edge], *, forward: bool) -> list[Edge]:
    """Edges where one side uses a value of its own and the other one that both have."""
    to_a, to_b = case.diff.match.to_a, case.diff.match.to_b
    done_a, done_b = case.claimed_a, case.claimed_b
    if forward:
        return [e for e in edges if to_b[e.p] < 0 <= to_a[e.q] and e.p not in done_a]
    return [e for e in edges if to_a[e.q] < 0 <= to_b[e.p] and e.q not in done_b]


def _inserted_finding(case: Case, edges: Sequence[Edge], *, forward: bool) -> Finding:
    """`forward`: A has the extra piece; otherwise B."""
    match = case.diff.match
    more = match.a.module if forward else match.b.module
    to_less = match.to_b if forward else match.to_a
    rewired = {e: match.to_a[e.q] if forward else match.to_b[e.p] for e in edges}
    starts = [edge.p if forward else edge.q for edge in rewired]
    piece = piece_of(more, starts, to_less, case.claimed_a if forward else case.claimed_b)
    acting = [i for i in piece if has_effect(more, i)]
    number = count(computed(more, piece), "instruction")
    lines = where(more, piece)
    side, other_side = (A, B) if forward else (B, A)
    users_a = {edge.x for edge in rewired if edge.place != OUTPUT}
    users_b = {edge.y for edge in rewired if edge.place != OUTPUT}

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        draft = draft_a if forward else draft_b
        for i in acting:
            draft.become_undone(i, ())
        for edge, replacement in rewired.items():
            if edge.place == OUTPUT:
                draft.replace_outputs({(edge.p if forward else edge.q): replacement})
                continue
            user = edge.x if forward else edge.y
            operands = list(draft.operands[user])
            operands[edge.place] = replacement
            draft.operands[user] = tuple(operands)

    return Finding(
        kind="extra-subgraph",
        title=f"{side} computes {number} more than {other_side}"
        f"{at(lines)} before {count(len(rewired), 'use')} that both have",
        evidence=(
            Evidence(
                f"{side} puts {number}"
                f"{operations(more, piece)} between values that "
                f"{other_side} connects directly",
                tuple(sorted(piece if forward else users_a))[:50],
                tuple(sorted(users_b if forward else piece))[:50],
                lines,
            ),
        ),
        fix=BRANCH_FIX,
        proof=f"the {count(len(piece), 'extra instruction')} of {side} were bypassed",
        a=frozenset((piece if forward else set()) | users_a),
        b=frozenset((set() if forward else piece) | users_b),
        undo=undo,
    )


def computed(module: Module, piece: set[int]) -> int:
    """How many instructions a piece runs, those of computations that only it calls included."""
    inner = called_only_by(module, piece)
    return len(piece) + sum(1 for i in inner if module.opcodes[i] != "parameter")


def inputs_of(
    case: Case, piece_a: Collection[int], piece_b: Collection[int]
) -> list[tuple[int, int]]:
    """The paired values that either piece takes in: both are left to be compared."""
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    end_a, end_b = max(piece_a), max(piece_b)
    found = {(p, match.to_b[p]) for i in piece_a for p in a.operands[i] if match.to_b[p] >= 0}
    found |= {(match.to_a[q], q) for j in piece_b for q in b.operands[j] if match.to_a[q] >= 0}
    return sorted((p, q) for p, q in found if p < end_a and q < end_b)


def replaced(case: Case) -> list[Finding]:
    """A value is computed in one way by A and in another by B; the rest is the same."""
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    edges = [
        edge
        for edge in open_edges(case)
        if match.to_b[edge.p] < 0
        and match.to_a[edge.q] < 0
        and a.shapes[edge.p] == b.shapes[edge.q]
    ]
    return [_replaced_finding(case, group) for group in pieces(case, edges)]


def _replaced_finding(case: Case, edges: Sequence[Edge]) -> Finding:
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    pairs = sorted({(edge.p, edge.q) for edge in edges})
    piece_a = piece_of(a, [p for p, _ in pairs], match.to_b, case.claimed_a)
    piece_b = piece_of(b, [q for _, q in pairs], match.to_a, case.claimed_b)
    early = all(is_input(a, p) or is_input(b, q) for p, q in pairs)
    lines = where(b, piece_b) or where(a, piece_a)
    users_a = {edge.x for edge in edges if edge.place != OUTPUT}
    users_b = {edge.y for edge in edges if edge.place != OUTPUT}

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for p, q in pairs:
            inputs = inputs_of(
                case,
                {p} | piece_of(a, [p], match.to_b, set()),
                {q} | piece_of(b, [q], match.to_a, set()),
            )
            draft_a.become_undone(p, [x for x, _ in inputs])
            draft_b.become_undone(q, [y for _, y in inputs])

    shape = short_shape(a, pairs[0][0])
    number = count(len(pairs), "value")
    sizes = f"{count(len(piece_a), 'instruction')} of {A} against {len(piece_b)} of {B}"
    return Finding(
        kind="early-execution" if early else "replaced-subgraph",
        title=f"{number} that one module computes came ready-made into the other "
        f"({shape}){at(lines)}, as when part of the graph runs early"
        if early
        else f"{number} ({shape}) {'is' if len(pairs) == 1 else 'are'} computed in another "
        f"way{at(lines)}: {sizes}",
        evidence=(
            Evidence(
                f"a piece of {A}{operations(a, piece_a)} and one of {B}{operations(b, piece_b)} "
                "end in values that the rest of both modules uses alike",
                tuple(sorted(piece_a))[:50],
                tuple(sorted(piece_b))[:50],
                lines,
            ),
        ),
        fix=EARLY_FIX if early else BRANCH_FIX,
        proof="both pieces were replaced by one operation on the same inputs",
        a=frozenset(piece_a | users_a),
        b=frozenset(piece_b | users_b),
        undo=undo,
    )
