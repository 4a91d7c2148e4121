"""Detectors for values baked into the graph: constants, indices, special scalars, shapes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, join, parameter_name
from xlagraph.cause.finding import short_shape as shape_of
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft

INDEX_OPCODES = frozenset(
    {"slice", "dynamic-slice", "pad", "gather", "iota", "dynamic-update-slice"}
)


def shape_change(case: Case) -> list[Finding]:
    """An input dimension differs and all that depends on it: one origin, one finding."""
    diff = case.diff
    a, b = diff.a, diff.b
    shaped = {x: y for x, y, fields in case.open_changes() if "shape" in fields}
    origins = [x for x in shaped if not any(o in shaped for o in a.operands[x])]
    inputs = [x for x in origins if a.opcodes[x] == "parameter"]
    if not inputs:
        return []
    pairs = _dimension_pairs(case, [(x, shaped[x]) for x in inputs])
    if not pairs:
        return []
    claimed = {x: y for x, y in shaped.items() if _explained(a.shapes[x], b.shapes[y], pairs)}
    claimed |= _sizes_in_constants(case, pairs)
    changed = ", ".join(f"dimension {axis}: {old} -> {new}" for axis, old, new in sorted(pairs))
    names = [parameter_name(a, case.context_a, x) for x in inputs]
    spread = len(claimed) - len(inputs)

    def undo(draft_a: Draft, _draft_b: Draft) -> None:
        for x, y in claimed.items():
            draft_a.shapes[x] = b.shapes[y]
            draft_a.attributes[x] = b.attributes[y]
            if y in b.payloads and a.opcodes[x] == "constant":
                draft_a.payloads[x] = b.payloads[y]

    finding = Finding(
        kind="input-shape",
        title=f"an input has another shape: {join(names)} became "
        f"{join(shape_of(b, shaped[x]) for x in inputs)} ({changed})",
        evidence=(
            Evidence(
                f"origin: {join(names)}; {changed}",
                tuple(inputs),
                tuple(shaped[x] for x in inputs),
                where(b, [shaped[x] for x in inputs]),
            ),
            Evidence(
                f"from there it spreads to {count(spread, 'more instruction')}",
                tuple(sorted(set(claimed) - set(inputs)))[:50],
                tuple(sorted(claimed[x] for x in set(claimed) - set(inputs)))[:50],
            ),
        ),
        fix="Pad or drop the odd batch (drop_last=True), or bucket the sizes, so that every step "
        "sees the same shapes.",
        proof="B's dimensions were put into A at the origin and where they spread to",
        a=frozenset(claimed),
        b=frozenset(claimed.values()),
        undo=undo,
    )
    return [finding]


def _dimension_pairs(case: Case, origins: list[tuple[int, int]]) -> set[tuple[int, int, int]]:
    found = set()
    for x, y in origins:
        old = read_shape(case.diff.a.shapes[x]).dimensions
        new = read_shape(case.diff.b.shapes[y]).dimensions
        if len(old) == len(new):
            found |= {(k, d, e) for k, (d, e) in enumerate(zip(old, new, strict=True)) if d != e}
    return found


def _explained(text_a: str, text_b: str, pairs: set[tuple[int, int, int]]) -> bool:
    """Whether every dimension that differs is scaled as an origin's dimension is."""
    first, second = read_shape(text_a), read_shape(text_b)
    if first.parts or second.parts:
        return len(first.parts) == len(second.parts)
    old, new = first.dimensions, second.dimensions
    if len(old) != len(new):
        return False
    return all(
        d == e or any(d * q == e * p or d - p == e - q for _, p, q in pairs)
        for d, e in zip(old, new, strict=True)
    )


def _sizes_in_constants(case: Case, pairs: set[tuple[int, int, int]]) -> dict[int, int]:
    """Constants that hold an element count or its inverse (a mean) and scale with the input."""
    a, b = case.diff.a, case.diff.b
    found = {}
    for x, y, fields in case.open_changes():
        if fields == ("payload",) and a.opcodes[x] == "constant":
            old, new = _number(a.payloads[x]), _number(b.payloads[y])
            if (
                old
                and new
                and any(_close(old * q, new * p) or _close(old * p, new * q) for _, p, q in pairs)
            ):
                found[x] = y
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-5 * max(abs(x), abs(y))


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
        findings.append(_constant_finding(_cut(old), _cut(new), lines, pairs, case))
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
        proof=f"the constant in A was set to {new}",
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


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
    text = "; ".join(f"{k}: {_cut(old.get(k, 'none'))} -> {_cut(new.get(k, 'none'))}" for k in keys)
    known = next((_ATTRIBUTE_KINDS[k] for k in keys if k in _ATTRIBUTE_KINDS), None)
    if known:
        kind, fix = known
        title = f"{kind.replace('-', ' ')} of {count(len(pairs), opcode)} differs: {text}{at(lines)}"
    elif opcode in INDEX_OPCODES:
        kind = "python-index"
        title = f"a Python index is baked into {count(len(pairs), opcode)}: {text}{at(lines)}"
        fix = (
            "Index with a tensor on the device (torch.index_select, or a dynamic slice), or move "
            "the indexing to the host before the tensor is sent."
        )
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
        proof=f"A's {opcode} was given B's attributes",
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
    lines = where(literal_side, literals)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        draft = draft_b if constants_in_b else draft_a
        draft.become_parameter(literals, parameter_side.shapes[scalar])

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
