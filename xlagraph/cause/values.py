"""Detectors for values baked into the graph: constants, attributes, special scalars."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.draft import NO_ATTRIBUTES
from xlagraph.cause.finding import (
    Case,
    Finding,
    attribute_text,
    count,
    parameter_name,
    told_apart,
)
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.shapes import INDEX_FIX, INDEX_OPCODES
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import OPTIMIZER_FILE

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft


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
        fix="Pass the value as a tensor on the device (torch.tensor(value).to(device)), made "
        "before the step, so that it becomes a parameter.",
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


def special_scalar(case: Case) -> list[Finding]:
    """A scalar is a parameter on one side and constants on the other (0 and 1 are special).

    torch_xla lowers the Python scalars 0 and 1 as constants and all others as parameters
    (pytorch/xla issue 4994).
    """
    forward = _scalar_findings(case, constants_in_b=True)
    return forward or _scalar_findings(case, constants_in_b=False)


def _scalar_findings(case: Case, *, constants_in_b: bool) -> list[Finding]:
    a, b = case.diff.a, case.diff.b
    uses: dict[int, set[int]] = defaultdict(set)
    changed: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for x, y, fields in case.open_changes():
        if fields != ("operands",) or len(a.operands[x]) != len(b.operands[y]):
            continue
        for p, q in zip(a.operands[x], b.operands[y], strict=True):
            scalar, literal = (p, q) if constants_in_b else (q, p)
            with_scalar, with_literal = (a, b) if constants_in_b else (b, a)
            if (
                with_scalar.opcodes[scalar] == "parameter"
                and with_literal.opcodes[literal] == "constant"
                and with_scalar.shapes[scalar] == with_literal.shapes[literal]
            ):
                uses[scalar].add(literal)
                changed[scalar].append((x, y))
    return [
        _scalar_finding(case, scalar, literals, changed[scalar], constants_in_b=constants_in_b)
        for scalar, literals in sorted(uses.items())
    ]


def _scalar_finding(
    case: Case,
    scalar: int,
    literals: set[int],
    changed: list[tuple[int, int]],
    *,
    constants_in_b: bool,
) -> Finding:
    a, b = case.diff.a, case.diff.b
    parameter_side, literal_side = (a, b) if constants_in_b else (b, a)
    context = case.context_a if constants_in_b else case.context_b
    value = literal_side.payloads[min(literals)]
    name = parameter_name(parameter_side, context, scalar)
    users = {j for i in literals for j in literal_side.users[i]}
    lines = where(literal_side, literals) or where(literal_side, users)
    if lines and OPTIMIZER_FILE.search(lines[0]):
        name = f"{name}, a number of the optimizer (most often the learning rate),"

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        own, other = (draft_a, draft_b) if constants_in_b else (draft_b, draft_a)
        own.attributes[scalar] = NO_ATTRIBUTES  # a sharding, say: a constant has none
        other.become_parameter(literals, parameter_side.shapes[scalar])

    became = (
        f"{name} became the constant {value}"
        if constants_in_b
        else (f"the constant {value} became {name}")
    )
    pairs = frozenset(changed)
    scalars, numbers = frozenset({scalar}), frozenset(literals)
    changed_a = frozenset(x for x, _ in pairs)
    changed_b = frozenset(y for _, y in pairs)
    return Finding(
        kind="special-scalar",
        title=f"a Python number took a special value: {became}{at(lines)}",
        evidence=(
            Evidence(
                f"torch_xla lowers the Python scalars 0 and 1 as constants and all others as "
                f"parameters; here {became}, used by {count(len(changed), 'instruction')}",
                tuple(changed_a | (scalars if constants_in_b else numbers)),
                tuple(changed_b | (numbers if constants_in_b else scalars)),
                lines,
            ),
        ),
        fix="Keep the number on the device as a tensor, or keep it away from exactly 0 and 1 "
        "(for a learning-rate schedule: clamp it a little below 1).",
        proof="the constants were turned back into one parameter",
        a=changed_a | (scalars if constants_in_b else numbers),
        b=changed_b | (numbers if constants_in_b else scalars),
        undo=undo,
    )
