"""From a difference to an explanation: run the detectors, then prove what they say.

A finding is believed when undoing it, together with the others, turns the two modules into
the same computation. What no finding accounts for is listed as unexplained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level
from xlagraph.cause.bucket_results import bucket_results, rows_by_tensor
from xlagraph.cause.bucket_rows import bucket_rows
from xlagraph.cause.buckets import bucket_change, bucket_order
from xlagraph.cause.callers import placed
from xlagraph.cause.calls import inlined_calls
from xlagraph.cause.draft import called_only_by
from xlagraph.cause.dtypes import dtype_change
from xlagraph.cause.elided import not_compared
from xlagraph.cause.finding import Case, Finding, count, sentence
from xlagraph.cause.headers import header_change
from xlagraph.cause.initial import initial_state
from xlagraph.cause.keys import key_difference
from xlagraph.cause.layouts import layout_change
from xlagraph.cause.loops import more_carried
from xlagraph.cause.merge import merged
from xlagraph.cause.model import Cause, Context, Evidence, Explanation
from xlagraph.cause.noise import noise_causes
from xlagraph.cause.outputs import live_tensors, output_order, started_early
from xlagraph.cause.places import is_library, line_near
from xlagraph.cause.precision import precision_change
from xlagraph.cause.proof import Bench
from xlagraph.cause.remat import rematerialized
from xlagraph.cause.repeated import repeated_expression
from xlagraph.cause.scalars import argument_or_constant, number_of_its_own
from xlagraph.cause.shapes import shape_change
from xlagraph.cause.sharding import sharding_change
from xlagraph.cause.sides import NAMES, with_names
from xlagraph.cause.state import newly_updated, optimizer_state
from xlagraph.cause.steps import other_step
from xlagraph.cause.subgraphs import inserted, replaced
from xlagraph.cause.tied import second_input, tied_weights
from xlagraph.cause.values import attribute_change, constant_change
from xlagraph.cause.waits import wait_change
from xlagraph.diff import diff_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

    Detectors = tuple[Callable[[Case], list[Finding]], ...]

DETECTORS: Detectors = (
    inlined_calls,
    more_carried,
    sharding_change,
    bucket_order,
    bucket_change,
    started_early,
    tied_weights,
    optimizer_state,
    newly_updated,
    second_input,
    header_change,
    rematerialized,
    dtype_change,
    shape_change,
    other_step,
    constant_change,
    precision_change,
    attribute_change,
    wait_change,
    layout_change,
    initial_state,
    argument_or_constant,
    number_of_its_own,
    live_tensors,
    output_order,
    repeated_expression,
    inserted,
    replaced,
)
"""In order: what explains most specifically comes first, and later ones see what is left."""

BY_TENSOR = tuple(bucket_results if d is bucket_change else d for d in DETECTORS)
"""The same, with other tensors in buckets undone one by one."""

FIRST_ONLY = (inlined_calls, more_carried, header_change, sharding_change, tied_weights)
"""Detectors that look at what undoing a cause may change: they see the modules as they are."""

REMATCHED = (inlined_calls, more_carried, sharding_change, second_input, dtype_change)
"""Detectors whose undoing lets instructions pair off better: a round ends with what they find.

The header is looked at before it ends, since no later round does.
"""

MAX_ROUNDS = 5
"""How often what is left after undoing the causes found so far is searched again."""
MAX_SINGLE = 800_000
"""Instructions times suspicions up to which these are undone one by one as well."""
MAX_AGAIN = 200_000
"""Instructions up to which what has no proof is paired and explained in another way."""


def explain_modules(
    a: Module,
    b: Module,
    context_a: Context | None = None,
    context_b: Context | None = None,
    names: tuple[str, str] = NAMES,
) -> Explanation:
    """Explains why B is another module than A; the contexts add what a capture knows.

    `names`: what the sentences call the two.
    """
    explanation = _best(diff_modules(a, b), context_a or Context(), context_b or Context())
    return with_names(explanation, names)


def _best(diff: Diff, context_a: Context, context_b: Context) -> Explanation:
    """The explanation of a difference; its sentences have placeholders for names.

    What cannot be proved with instructions paired by value is tried again with instructions
    paired by place (constants, then shapes left out of account), and the proof counts.
    """
    if rows_by_tensor(Case(diff, context_a, context_b)) is not None:
        explanation = _explain(diff, context_a, context_b, BY_TENSOR)
        if explanation.proved:
            return explanation
    explanation = _explain(diff, context_a, context_b)
    for level in (Level.CONSTANT_VALUES, Level.SHAPES):
        if explanation.proved or len(diff.a) + len(diff.b) > MAX_AGAIN:
            break
        other = _explain(diff_modules(diff.a, diff.b, level), context_a, context_b)
        if other.proved:
            explanation = other
    return explanation


def _explain(
    diff: Diff, context_a: Context, context_b: Context, detectors: Detectors = DETECTORS
) -> Explanation:
    findings: list[Finding] = []
    bench, proved = Bench(diff, context_a, context_b), diff.same
    for number in range(MAX_ROUNDS):
        if proved:
            break
        found = _detect(bench.case(), detectors, first=number == 0)
        accepted, bench, proved = _accept(bench, found)
        findings += accepted
        if proved and number:
            findings = _needed_of_all(Bench(diff, context_a, context_b), findings)
        if not accepted:
            break
    left_a, left_b = _left(diff, findings, bench, proved=proved)
    causes = noise_causes(diff) if diff.same else _causes(diff, findings, proved=proved)
    return Explanation(
        diff=diff,
        verdict=_verdict(diff, causes, len(left_a) + len(left_b), context_a, context_b)
        + not_compared(diff),
        causes=causes,
        unexplained_a=left_a,
        unexplained_b=left_b,
        proved=proved,
        buckets_a=bucket_rows(diff.a, context_a),
        buckets_b=bucket_rows(diff.b, context_b),
    )


def _detect(case: Case, detectors: Detectors, *, first: bool) -> list[Finding]:
    """Asks every detector about what the ones before it left open."""
    findings: list[Finding] = []
    for detect in detectors:
        if detect in FIRST_ONLY and not first:
            continue
        found = detect(case)
        for finding in found:
            case.claim(finding)
        findings += found
        if found and detect in REMATCHED:
            if first and DETECTORS.index(detect) < DETECTORS.index(header_change):
                findings += header_change(case)
            break
    return findings


def _accept(bench: Bench, found: Sequence[Finding]) -> tuple[list[Finding], Bench, bool]:
    """The suspicions that stand up: undone, the modules are equal or at least closer.

    Undone together first; if that does not do, one after the other, so that a wrong one is
    not carried along by the rest.
    """
    if not found:
        return [], bench, False
    together, proved = bench.without(found)
    is_small = (len(bench.diff.a) + len(bench.diff.b)) * len(found) <= MAX_SINGLE
    if proved:
        needed = _needed(bench, found) if is_small else list(found)
        return [bench.original(f) for f in needed], together, True
    if not is_small:
        if together.left() < bench.left():
            return [bench.original(f) for f in found], together, False
        return [], bench, False
    return _accept_singly(bench, found)


def _needed(bench: Bench, found: Sequence[Finding]) -> list[Finding]:
    """The suspicions without which the proof fails; general ones are left out first.

    A silent one may concern the header, which the proof does not look at.
    """
    needed = list(found)
    for finding in reversed(found):
        if len(needed) > 1 and not finding.is_silent:
            others = [f for f in needed if f is not finding]
            if bench.without(others)[1]:
                needed = others
    return needed


def _needed_of_all(start: Bench, findings: list[Finding]) -> list[Finding]:
    """Of the suspicions of several rounds those without which there is no proof.

    What a later round explains may make one of an earlier round needless.
    """
    is_small = (len(start.diff.a) + len(start.diff.b)) * len(findings) <= MAX_SINGLE
    return _needed(start, findings) if is_small and start.without(findings)[1] else findings


def _accept_singly(bench: Bench, found: Sequence[Finding]) -> tuple[list[Finding], Bench, bool]:
    """Takes the suspicions one by one and keeps those that bring the modules closer."""
    accepted: list[Finding] = []
    best, proved = bench, False
    for finding in found:
        tried, proved = bench.without([*accepted, finding])
        is_silent = tried is not bench and finding.is_silent
        if proved or tried.left() < best.left() or is_silent:
            accepted.append(finding)
            best = tried
        if proved:
            break
    return [bench.original(f) for f in accepted], best, proved


def _left(
    diff: Diff, findings: Sequence[Finding], bench: Bench, *, proved: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What no cause accounts for: nothing, if undoing them made the modules equal."""
    if proved:
        return (), ()
    claimed = Case(diff)
    for finding in findings:
        claimed.claim(finding)
    claimed.claimed_a.update(called_only_by(diff.a, claimed.claimed_a))
    claimed.claimed_b.update(called_only_by(diff.b, claimed.claimed_b))
    now = bench.now
    left_a = {c.a for c in now.changes} | set(now.removed)
    left_b = {c.b for c in now.changes} | set(now.added)
    open_pairs = claimed.open_changes()
    left_a |= {x for x, _, _ in open_pairs} | (set(diff.removed) - claimed.claimed_a)
    left_b |= {y for _, y, _ in open_pairs} | (set(diff.added) - claimed.claimed_b)
    differing_a = {c.a for c in diff.changes} | set(diff.removed)
    differing_b = {c.b for c in diff.changes} | set(diff.added)
    return tuple(sorted(left_a & differing_a)), tuple(sorted(left_b & differing_b))


def _causes(diff: Diff, findings: Sequence[Finding], *, proved: bool) -> tuple[Cause, ...]:
    """The causes by share; what is incidental counts only where nothing else is found."""
    named = merged([f for f in findings if not f.incidental], diff)
    if not proved:  # where instructions do not pair off, nor does their order mean anything
        named = [f for f in named if f.kind != "output-order"]
    aside = [f for f in findings if f.incidental]
    if not named:
        named, aside = aside, []
    taken_a = set[int]().union(*(f.a for f in aside)) - set[int]().union(*(f.a for f in named))
    taken_b = set[int]().union(*(f.b for f in aside)) - set[int]().union(*(f.b for f in named))
    found = [_cause(diff, f, taken_a, taken_b, proved=proved) for f in named]
    found.sort(key=lambda cause: (cause.expected, -cause.share))
    if proved and found:
        found[0] = _with_rest(diff, found, taken_a, taken_b)
    return tuple(found)


def _with_rest(diff: Diff, causes: Sequence[Cause], taken_a: set[int], taken_b: set[int]) -> Cause:
    """The first cause with what no cause cites: since the proof holds, it is a consequence."""
    cited_a = taken_a.union(*(c.a for c in causes))
    cited_b = taken_b.union(*(c.b for c in causes))
    rest = [c for c in diff.changes if c.a not in cited_a and c.b not in cited_b]
    rest_a = {c.a for c in rest} | (set(diff.removed) - cited_a)
    rest_b = {c.b for c in rest} | (set(diff.added) - cited_b)
    first = causes[0]
    number = len(rest_a) + len(rest_b) - len(rest)
    return replace(
        first,
        a=first.a | rest_a,
        b=first.b | rest_b,
        share=min(1.0, first.share + number / max(_counted(diff, taken_a, taken_b), 1)),
    )


def _counted(diff: Diff, taken_a: set[int], taken_b: set[int]) -> int:
    """The number of differing instructions, without those of incidental causes."""
    aside = sum(1 for c in diff.changes if c.a in taken_a or c.b in taken_b)
    aside += len(taken_a.intersection(diff.removed)) + len(taken_b.intersection(diff.added))
    return diff.differing - aside


def _cause(
    diff: Diff, finding: Finding, taken_a: set[int], taken_b: set[int], *, proved: bool
) -> Cause:
    finding = placed(diff, finding)
    mine_a = finding.a | called_only_by(diff.a, finding.a)
    mine_b = finding.b | called_only_by(diff.b, finding.b)
    changed = [c for c in diff.changes if c.a in mine_a or c.b in mine_b]
    own_a = frozenset({c.a for c in changed} | mine_a.intersection(diff.removed))
    own_b = frozenset({c.b for c in changed} | mine_b.intersection(diff.added))
    number = len(own_a) + len(own_b) - len(changed)
    total = _counted(diff, taken_a, taken_b)
    return Cause(
        kind=finding.kind,
        title=finding.title,
        evidence=finding.evidence + _own_line(diff, finding),
        fix=finding.fix,
        share=number / total if total else 1.0,
        proved=proved,
        proof=finding.proof,
        expected=finding.expected,
        a=own_a,
        b=own_b,
    )


def _own_line(diff: Diff, finding: Finding) -> tuple[Evidence, ...]:
    """The program's line nearest to what a finding cites, if it cites a library's line only."""
    lines = [line for evidence in finding.evidence for line in evidence.sources]
    if not lines or not all(is_library(line.rpartition(":")[0]) for line in lines):
        return ()
    near = line_near(diff.b, finding.b) or line_near(diff.a, finding.a)
    if not near:
        return ()
    return (Evidence("the program's own line nearest to it in the graph", sources=(near,)),)


def _verdict(
    diff: Diff, causes: Sequence[Cause], left: int, context_a: Context, context_b: Context
) -> str:
    if diff.same:
        return _same_verdict(causes, context_a, context_b)
    if not causes:
        return (
            f"The modules differ in {count(diff.differing, 'instruction')}; "
            "no known cause fits (unexplained)."
        )
    first = sentence(causes[0].title)
    if not causes[0].proved:
        first = f"Not explained for sure. Suspected: {causes[0].title}"
    more = f" (and {count(len(causes) - 1, 'further cause')})" if len(causes) > 1 else ""
    stay = "stays" if left == 1 else "stay"
    rest = f" {count(left, 'instruction')} {stay} unexplained." if left else ""
    return f"{first}{more}.{rest}{_one_hash(context_a, context_b)}"


def _one_hash(context_a: Context, context_b: Context) -> str:
    """What it means that modules differ which torch_xla has taken for one graph."""
    known = context_a.key.get("graph_hash")
    if not known or known != context_b.key.get("graph_hash"):
        return ""
    return " Both have one graph hash, so that torch_xla compiles only the first of them."


def _same_verdict(causes: Sequence[Cause], context_a: Context, context_b: Context) -> str:
    parts = sorted(
        name
        for name in context_a.key.keys() & context_b.key.keys()
        if context_a.key[name] != context_b.key[name]
    )
    if causes:
        only = "; ".join(cause.title for cause in causes)
        return f"Same computation{', another cache key' if parts else ''}: {only}."
    if parts:
        return (
            "Same computation, another cache key: the graph did not change, but "
            f"{', '.join(parts)} did. {key_difference(context_a.key, context_b.key)}"
        ).rstrip()
    return "Same computation: the modules differ in nothing that matters."
