"""Detector for a weight that is one tensor on one side and two on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.draft import exclusive_slice
from xlagraph.cause.finding import Case, Finding, parameter_name
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import open_edges
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import near_users
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def tied_weights(case: Case) -> list[Finding]:
    """A parameter of one side stands for two of the other: weights were tied or untied."""
    return [f for forward in (True, False) for f in _untied(case, forward=forward)]


def _untied(case: Case, *, forward: bool) -> list[Finding]:
    """`forward`: one tensor in A, two in B."""
    match = case.diff.match
    one, two = (match.a.module, match.b.module) if forward else (match.b.module, match.a.module)
    to_one, to_two = (match.to_a, match.to_b) if forward else (match.to_b, match.to_a)
    split: dict[int, int] = {}
    for edge in open_edges(case):
        p, q = (edge.p, edge.q) if forward else (edge.q, edge.p)
        if (
            one.opcodes[p] == two.opcodes[q] == "parameter"
            and one.shapes[p] == two.shapes[q]
            and to_two[p] >= 0
            and to_one[q] < 0
            and "[]" not in one.shapes[p]
        ):
            split[q] = p
    return [_finding(case, p, to_two[p], q, forward=forward) for q, p in sorted(split.items())]


def _finding(case: Case, tied: int, first: int, second: int, *, forward: bool) -> Finding:
    diff = case.diff
    one, two = (diff.a, diff.b) if forward else (diff.b, diff.a)
    context = case.context_b if forward else case.context_a
    gone_one = _updates(one, [tied])
    gone_two = _updates(two, [first, second])
    own_one = exclusive_slice(one, gone_one)
    own_two = exclusive_slice(two, gone_two) | {second}
    users = {e.x if forward else e.y for e in open_edges(case) if second in (e.p, e.q)}
    users_two = {e.y if forward else e.x for e in open_edges(case) if second in (e.p, e.q)}
    lines = where(two, users_two)
    side, other = (A, B) if forward else (B, A)
    names = f"{parameter_name(two, context, first)} and {parameter_name(two, context, second)}"

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        (draft_b if forward else draft_a).replace_uses({second: first})

    cited_one, cited_two = (tied,), (first, second)
    return Finding(
        kind="tied-weights",
        title=f"weights are tied in {side} and not in {other}: {names} are one tensor there"
        f"{at(lines)}",
        evidence=(
            Evidence(
                f"{side} takes in one tensor where {other} takes in {names}",
                cited_one if forward else cited_two,
                cited_two if forward else cited_one,
                lines,
            ),
        ),
        fix="Tie the weights again after loading or copying the model (assign one Parameter to "
        "both), before the optimizer is made.",
        proof=f"in {other} one tensor was used in place of both, and their updates set aside",
        a=frozenset((own_one if forward else own_two) | (users if forward else users_two)),
        b=frozenset((own_two if forward else own_one) | (users_two if forward else users)),
        dropped_a=frozenset(gone_one if forward else gone_two),
        dropped_b=frozenset(gone_two if forward else gone_one),
        undo=undo,
    )


def _updates(module: Module, parameters: list[int]) -> set[int]:
    """Outputs that are new values of these parameters."""
    values = output_values(module)
    return {
        k
        for p in parameters
        for near in [near_users(module, p)]
        for k, value in enumerate(values)
        if value in near and module.shapes[value] == module.shapes[p]
    }
