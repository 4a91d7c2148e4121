"""Detector for another operation in the same place: the end of a loop's body or of a branch.

Computations are paired with their roots, so that another last step is a pair whose opcodes
differ, while everywhere else it is two instructions without a partner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, short_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.subgraphs import BRANCH_FIX, inputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def other_step(case: Case) -> list[Finding]:
    """Pairs whose operation differs, with what leads to it on one side only."""
    a, b = case.diff.a, case.diff.b
    return [
        _finding(case, x, y)
        for x, y, fields in case.open_changes()
        if "opcode" in fields
        and "shape" not in fields
        and _is_computed(a, x)
        and _is_computed(b, y)
    ]


def _is_computed(module: Module, i: int) -> bool:
    return module.opcodes[i] not in ("parameter", "tuple")


def _finding(case: Case, x: int, y: int) -> Finding:
    a, b, match = case.diff.a, case.diff.b, case.diff.match
    piece_a = _piece(a, x, match.to_b, case.claimed_a)
    piece_b = _piece(b, y, match.to_a, case.claimed_b)
    inputs = inputs_of(case, piece_a, piece_b)
    starts = _starts(case, x, y)
    kind, title = _told(case, (x, y), piece_a, piece_b)
    lines = where(b, [y]) or where(a, [x]) or where(b, piece_b) or where(a, piece_a)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        draft_a.become_undone(x, [p for p, _ in inputs])
        draft_b.become_undone(y, [q for _, q in inputs])
        for p, q in starts:
            draft_a.payloads[p] = draft_b.payloads[q]

    return Finding(
        kind=kind,
        title=title + at(lines),
        evidence=(
            Evidence(
                f"{a.opcodes[x]} {short_shape(a, x)} in {A}, {b.opcodes[y]} in {B}",
                tuple(sorted(piece_a))[:50],
                tuple(sorted(piece_b))[:50],
                lines,
            ),
        ),
        fix=BRANCH_FIX,
        proof="both were replaced by one operation on the same inputs",
        a=frozenset(piece_a | {p for p, _ in starts}),
        b=frozenset(piece_b | {q for _, q in starts}),
        undo=undo,
    )


def _told(
    case: Case, ends: tuple[int, int], piece_a: set[int], piece_b: set[int]
) -> tuple[str, str]:
    """The kind and the title; where one side goes on behind the other's last step, it is more."""
    (x, y), a, b, match = ends, case.diff.a, case.diff.b, case.diff.match
    if len(piece_a) == len(piece_b) == 1:
        return "replaced-subgraph", f"{a.opcodes[x]} became {b.opcodes[y]}"
    if any(match.b.labels[j] == match.a.labels[x] for j in piece_b if j != y):
        more = count(len(piece_b) - len(piece_a), "instruction")
        return "extra-subgraph", f"{B} computes {more} more than {A} behind {a.opcodes[x]}"
    if any(match.a.labels[i] == match.b.labels[y] for i in piece_a if i != x):
        more = count(len(piece_a) - len(piece_b), "instruction")
        return "extra-subgraph", f"{A} computes {more} more than {B} behind {b.opcodes[y]}"
    return "replaced-subgraph", (
        f"a value ({short_shape(a, x)}) is computed in another way: "
        f"{count(len(piece_a), 'instruction')} of {A} against {len(piece_b)} of {B}"
    )


def _piece(module: Module, start: int, partners: Sequence[int], claimed: set[int]) -> set[int]:
    """The instruction and what leads to it without a partner."""
    found, stack = {start}, list(module.operands[start])
    while stack:
        i = stack.pop()
        if i not in found and i not in claimed and partners[i] < 0:
            found.add(i)
            stack.extend(module.operands[i])
    return found


def _starts(case: Case, x: int, y: int) -> list[tuple[int, int]]:
    """Constants that a reduction with the changed step starts from: 0 for a sum, for example."""
    a, b = case.diff.a, case.diff.b
    ends = {a.computation_of(x).index, b.computation_of(y).index}
    if a.computation_of(x).root != x:
        return []

    def serves(module: Module, i: int) -> bool:
        return all(
            ends.intersection(module.callees.get(u, ())) and module.operands[u][0] != i
            for u in module.users[i]
        )

    return [
        (p, q)
        for p, q, fields in case.open_changes()
        if fields == ("payload",) and a.opcodes[p] == "constant" and serves(a, p) and serves(b, q)
    ]
