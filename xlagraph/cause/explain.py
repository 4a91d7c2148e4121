"""From a difference to an explanation: run the detectors, then prove what they say.

A finding is believed when undoing it, together with the others, turns the two modules into
the same computation. What no finding accounts for is listed as unexplained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.buckets import bucket_change, bucket_rows
from xlagraph.cause.draft import Draft, called_only_by, live_count
from xlagraph.cause.finding import Case, Finding, count
from xlagraph.cause.headers import header_change
from xlagraph.cause.model import Cause, Context, Explanation
from xlagraph.cause.outputs import live_tensors, optimizer_state, output_order
from xlagraph.cause.subgraphs import inserted, repeated_expression, replaced
from xlagraph.cause.values import attribute_change, constant_change, shape_change, special_scalar
from xlagraph.diff import diff_modules
from xlagraph.diff.same import same_computation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

DETECTORS: tuple[Callable[[Case], list[Finding]], ...] = (
    bucket_change,
    optimizer_state,
    header_change,
    shape_change,
    constant_change,
    attribute_change,
    special_scalar,
    live_tensors,
    output_order,
    repeated_expression,
    inserted,
    replaced,
)
"""In order: what explains most specifically comes first, and later ones see what is left."""

MEANINGFUL_REST = 0.1
"""A proof that sets outputs aside must leave at least this part of the smaller module."""


def explain_modules(
    a: Module,
    b: Module,
    context_a: Context | None = None,
    context_b: Context | None = None,
) -> Explanation:
    """Explains why B is another module than A; the contexts add what a capture knows."""
    return explain(diff_modules(a, b), context_a or Context(), context_b or Context())


def explain(diff: Diff, context_a: Context, context_b: Context) -> Explanation:
    """Explains a difference that was already computed."""
    case = Case(diff, context_a, context_b)
    findings: list[Finding] = []
    if not diff.same:
        for detect in DETECTORS:
            found = detect(case)
            for finding in found:
                case.claim(finding)
            findings += found
    left_a, left_b = _unclaimed(case)
    proved = diff.same or (bool(findings) and _undone_are_same(diff, findings))
    causes = tuple(
        sorted(
            (_cause(diff, finding, proved=proved) for finding in findings),
            key=lambda cause: (cause.expected, -cause.share),
        )
    )
    return Explanation(
        diff=diff,
        verdict=_verdict(diff, causes, len(left_a) + len(left_b), context_a, context_b),
        causes=causes,
        unexplained_a=left_a,
        unexplained_b=left_b,
        proved=proved,
        buckets_a=bucket_rows(diff.a, context_a),
        buckets_b=bucket_rows(diff.b, context_b),
    )


def _unclaimed(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    diff = case.diff
    case.claimed_a.update(called_only_by(diff.a, case.claimed_a))
    case.claimed_b.update(called_only_by(diff.b, case.claimed_b))
    changes = [c for c in diff.changes if c.a not in case.claimed_a and c.b not in case.claimed_b]
    left_a = {c.a for c in changes} | (set(diff.removed) - case.claimed_a)
    left_b = {c.b for c in changes} | (set(diff.added) - case.claimed_b)
    return tuple(sorted(left_a)), tuple(sorted(left_b))


def _cause(diff: Diff, finding: Finding, *, proved: bool) -> Cause:
    mine_a = finding.a | called_only_by(diff.a, finding.a)
    mine_b = finding.b | called_only_by(diff.b, finding.b)
    changed = [c for c in diff.changes if c.a in mine_a or c.b in mine_b]
    own_a = frozenset({c.a for c in changed} | mine_a.intersection(diff.removed))
    own_b = frozenset({c.b for c in changed} | mine_b.intersection(diff.added))
    number = len(own_a) + len(own_b) - len(changed)
    return Cause(
        kind=finding.kind,
        title=finding.title,
        evidence=finding.evidence,
        fix=finding.fix,
        share=number / diff.differing if diff.differing else 1.0,
        proved=proved,
        proof=finding.proof,
        expected=finding.expected,
        a=own_a,
        b=own_b,
    )


def _undone_are_same(diff: Diff, findings: Sequence[Finding]) -> bool:
    """Undoes all findings on copies of both modules and compares what is left."""
    draft_a, draft_b = Draft(diff.a), Draft(diff.b)
    gone_a = frozenset[int]().union(*(f.dropped_a for f in findings))
    gone_b = frozenset[int]().union(*(f.dropped_b for f in findings))
    kept = [
        slot
        for slot in diff.outputs
        if (slot.a is None or slot.a not in gone_a) and (slot.b is None or slot.b not in gone_b)
    ]
    draft_a.keep_outputs([s.a for s in kept if s.a is not None])
    draft_b.keep_outputs([s.b for s in kept if s.b is not None])
    for finding in findings:
        finding.undo(draft_a, draft_b)
    a, b = draft_a.build(), draft_b.build()
    smaller = min(live_count(diff.a), live_count(diff.b))
    return live_count(a) >= MEANINGFUL_REST * smaller and same_computation(a, b)


def _verdict(
    diff: Diff, causes: Sequence[Cause], left: int, context_a: Context, context_b: Context
) -> str:
    if diff.same:
        return _same_verdict(context_a, context_b)
    if not causes:
        return (
            f"The modules differ in {count(diff.differing, 'instruction')}; "
            "no known cause fits (unexplained)."
        )
    first = causes[0].title[0].upper() + causes[0].title[1:]
    more = f" (and {count(len(causes) - 1, 'further cause')})" if len(causes) > 1 else ""
    rest = f" {count(left, 'instruction')} stay unexplained." if left else ""
    return f"{first}{more}.{rest}"


def _same_verdict(context_a: Context, context_b: Context) -> str:
    parts = sorted(
        name
        for name in context_a.key.keys() & context_b.key.keys()
        if context_a.key[name] != context_b.key[name]
    )
    if parts:
        return (
            "Same computation, another cache key: the graph did not change, but "
            f"{', '.join(parts)} did."
        )
    return "Same computation: the modules differ in nothing that matters."
