"""One reason, one finding: what detectors report from the same line is put together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding, count
from xlagraph.cause.places import at
from xlagraph.cause.sides import A, B
from xlagraph.cause.subgraphs import BRANCH_FIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FAMILIES = {
    "extra-subgraph": "branch",
    "replaced-subgraph": "branch",
    "live-tensor": "live",
    "donors": "header",
    "alias": "header",
}
"""Kinds of which several findings are one cause when their lines meet."""


def first_lines(finding: Finding) -> tuple[str, ...]:
    """The source lines of the first evidence that has any."""
    return next((e.sources for e in finding.evidence if e.sources), ())


def merged(findings: Sequence[Finding], diff: Diff) -> list[Finding]:
    """Findings of one family and with common lines become one, the largest leading.

    What has no line joins a group that it touches.
    """
    groups: dict[str, list[list[Finding]]] = defaultdict(list)
    single: list[list[Finding]] = []
    ordered = sorted(findings, key=lambda f: (not first_lines(f), -len(f.a) - len(f.b)))
    for finding in ordered:
        family = FAMILIES.get(finding.kind)
        if family is None:
            single.append([finding])
            continue
        home = _home(groups[family], finding, diff)
        if home is None:
            groups[family].append([finding])
        else:
            home.append(finding)
    found = [*single, *(group for family in groups.values() for group in family)]
    return [_one(group, diff) for group in _with_consequences(found)]


def _with_consequences(groups: list[list[Finding]]) -> list[list[Finding]]:
    """Buckets that carry gradients over the step also move outputs and keep values alive.

    Live tensors are ordered by age, so that what waits stands first; and a gradient that
    waits in a bucket is alive although nothing more is computed for it.
    """
    carry = next((group for group in groups if group[0].kind == "bucket-carry"), None)
    if carry is None:
        return groups
    kept = []
    for group in groups:
        main = group[0]
        adds_nothing = main.kind == "live-tensor" and not any(f.a or f.b for f in group)
        if group is not carry and (main.kind in ("output-order", "bucket-carry") or adds_nothing):
            carry += group
        else:
            kept.append(group)
    return kept


def _home(groups: list[list[Finding]], finding: Finding, diff: Diff) -> list[Finding] | None:
    lines = set(first_lines(finding))
    if lines:
        shared = (g for g in groups if any(lines.intersection(first_lines(f)) for f in g))
        return next(shared, None)
    around_a, around_b = _around(diff.a, finding.a), _around(diff.b, finding.b)
    touching = (g for g in groups if any(f.a & around_a or f.b & around_b for f in g))
    return next(touching, None)


def _around(module: Module, instructions: frozenset[int]) -> set[int]:
    """These instructions, what they take in and what takes them in."""
    return {j for i in instructions for j in (i, *module.operands[i], *module.users[i])} - {
        module.entry_computation.root
    }


def _one(group: list[Finding], diff: Diff) -> Finding:
    main = group[0]
    if len(group) == 1:
        return main
    a = frozenset[int]().union(*(f.a for f in group))
    b = frozenset[int]().union(*(f.b for f in group))
    own_a, own_b = len(a.intersection(diff.removed)), len(b.intersection(diff.added))
    kind, title, fix = main.kind, main.title, main.fix
    family = FAMILIES.get(main.kind)
    if family == "branch" and own_a and own_b:
        kind, fix = "replaced-subgraph", BRANCH_FIX
        title = (
            f"a piece of the graph is computed in another way{at(first_lines(main))}: "
            f"{count(own_a, 'instruction')} of {A} against {own_b} of {B}"
        )
    elif family == "branch":
        kind, fix = "extra-subgraph", BRANCH_FIX
        more, less, number = (A, B, own_a) if own_a else (B, A, own_b)
        title = (
            f"{more} computes {count(number, 'instruction')} more than {less}"
            if number
            else f"values take another way through {A} than through {B}"
        ) + at(first_lines(main))
    return replace(
        main,
        kind=kind,
        title=title,
        fix=fix,
        evidence=tuple(e for f in group for e in f.evidence),
        proof="; ".join(dict.fromkeys(f.proof for f in group)),
        a=a,
        b=b,
        dropped_a=frozenset[int]().union(*(f.dropped_a for f in group)),
        dropped_b=frozenset[int]().union(*(f.dropped_b for f in group)),
    )
