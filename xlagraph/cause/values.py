"""Detectors for values baked into the graph: constants and attributes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, attribute_text, count, told_apart
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.shapes import INDEX_FIX, INDEX_OPCODES
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft


NUMBER_FIX = (
    "Pass the value as a tensor on the device (torch.tensor(value).to(device)), made before the "
    "step, so that it becomes a parameter."
)


def constant_change(case: Case) -> list[Finding]:
    """Constants with another value, grouped by source line and by the two values."""
    a, b = case.diff.a, case.diff.b
    groups: dict[tuple[str, str, tuple[str, ...]], list[tuple[int, int]]] = defaultdict(list)
    for x, y, fields in case.open_changes():
        if fields == ("payload",) and a.opcodes[x] == "constant":
            key = (a.payloads[x], b.payloads[y], where(b, [y]))
            groups[key].append((x, y))
    findings = []
    for (old, new, lines), pairs in sorted(groups.items()):
        findings.append(_constant_finding(*told_apart(old, new), lines, pairs, case))
    return findings


def _constant_finding(
    old: str, new: str, lines: tuple[str, ...], pairs: list[tuple[int, int]], case: Case
) -> Finding:
    b = case.diff.b

    def undo(draft_a: Draft, _draft_b: Draft) -> None:
        for x, y in pairs:
            draft_a.payloads[x] = b.payloads[y]

    return Finding(
        kind="constant-value",
        title=f"a Python number is baked into the graph: {old} became {new} at "
        f"{count(len(pairs), 'place')}{at(lines)}",
        evidence=(
            Evidence(
                f"constant {old} -> {new}",
                tuple(x for x, _ in pairs),
                tuple(y for _, y in pairs),
                lines,
            ),
        ),
        fix=NUMBER_FIX,
        proof=f"the constant in {A} was set to {new}",
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


def attribute_change(case: Case) -> list[Finding]:
    """Instructions with other attributes: slice bounds, dimensions, replica groups, seeds."""
    a, b = case.diff.a, case.diff.b
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int, int]]] = defaultdict(list)
    for x, y, fields in case.open_changes():
        if set(fields) <= {"attributes", "shape"} and "attributes" in fields:
            groups[a.opcodes[x], where(b, [y])].append((x, y))
    return [
        _attribute_finding(opcode, lines, pairs, case)
        for (opcode, lines), pairs in sorted(groups.items())
    ]


_ATTRIBUTE_KINDS = {
    "sharding": ("sharding", "Give the tensor the same sharding annotation in every step."),
    "replica_groups": (
        "replica-groups",
        "Use the same groups in every step; build them once and reuse the list.",
    ),
}


def _attribute_finding(
    opcode: str, lines: tuple[str, ...], pairs: list[tuple[int, int]], case: Case
) -> Finding:
    a, b = case.diff.a, case.diff.b
    x, y = pairs[0]
    old, new = dict(a.attributes[x].items), dict(b.attributes[y].items)
    keys = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    text = attribute_text(a.attributes[x], b.attributes[y])
    known = next((_ATTRIBUTE_KINDS[k] for k in keys if k in _ATTRIBUTE_KINDS), None)
    if known:
        kind, fix = known
        what = kind.replace("-", " ")
        title = f"{what} of {count(len(pairs), opcode)} differs: {text}{at(lines)}"
    elif opcode in INDEX_OPCODES:
        kind = "python-index"
        title = f"a Python index is baked into {count(len(pairs), opcode)}: {text}{at(lines)}"
        fix = INDEX_FIX
    else:
        kind = "attribute"
        title = f"{opcode} has other attributes: {text}{at(lines)}"
        fix = "Keep this operation's options the same in every step."

    def undo(draft_a: Draft, _draft_b: Draft) -> None:
        for p, q in pairs:
            draft_a.attributes[p] = b.attributes[q]
            draft_a.shapes[p] = b.shapes[q]

    return Finding(
        kind=kind,
        title=title,
        evidence=(Evidence(text, tuple(p for p, _ in pairs), tuple(q for _, q in pairs), lines),),
        fix=fix,
        proof=f"{A}'s {opcode} was given {B}'s attributes",
        a=frozenset(p for p, _ in pairs),
        b=frozenset(q for _, q in pairs),
        undo=undo,
    )
