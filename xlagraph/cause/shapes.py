"""Detector for dimensions that differ: where they come from and how far they spread."""

from __future__ import annotations

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
INDEX_FIX = (
    "Index with a tensor on the device (torch.index_select, or a dynamic slice), or move the "
    "indexing to the host before the tensor is sent."
)
INPUT_FIX = (
    "Pad or drop the odd batch (drop_last=True), or bucket the sizes, so that every step sees the "
    "same shapes."
)
SIZE_FIX = (
    "Make tensors of a fixed size in every step and mask what is not used; a size that Python "
    "computes is part of the graph."
)


def shape_change(case: Case) -> list[Finding]:
    """A dimension differs at its origin and in all that depends on it: one finding.

    The origin is an input; if no input's shape differs, a slice or another instruction whose
    own operands still agree.
    """
    a = case.diff.a
    shaped = {x: y for x, y, fields in case.open_changes() if "shape" in fields}
    origins = [x for x in shaped if not any(o in shaped for o in a.operands[x])]
    inputs = [x for x in origins if a.opcodes[x] == "parameter"]
    indexed = [x for x in origins if a.opcodes[x] in INDEX_OPCODES]
    for kind, starts in (("input-shape", inputs), ("python-index", indexed), ("size", origins)):
        pairs = _dimension_pairs(case, [(x, shaped[x]) for x in starts])
        if pairs:
            return [_finding(case, kind, starts, shaped, pairs)]
    return []


def _finding(
    case: Case,
    kind: str,
    starts: list[int],
    shaped: dict[int, int],
    pairs: set[tuple[int, int, int]],
) -> Finding:
    a, b = case.diff.a, case.diff.b
    claimed = {x: y for x, y in shaped.items() if _explained(a.shapes[x], b.shapes[y], pairs)}
    claimed.update({x: shaped[x] for x in starts})
    claimed |= _sizes_in_constants(case, pairs)
    claimed |= _sizes_in_attributes(case)
    changed = ", ".join(f"dimension {axis}: {old} -> {new}" for axis, old, new in sorted(pairs))
    lines = where(b, [shaped[x] for x in starts])
    spread = len(claimed) - len(starts)
    new = join(shape_of(b, shaped[x]) for x in starts)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in claimed.items():
            draft_a.shapes[x] = draft_b.shapes[y]
            draft_a.attributes[x] = draft_b.attributes[y]
            if y in draft_b.payloads and draft_a.opcodes[x] == "constant":
                draft_a.payloads[x] = draft_b.payloads[y]

    if kind == "input-shape":
        names = join(parameter_name(a, case.context_a, x) for x in starts)
        title = f"an input has another shape: {names} became {new} ({changed}){at(lines)}"
        fix = INPUT_FIX
    else:
        names = join(f"{a.opcodes[x]} {shape_of(a, x)}" for x in starts)
        what = "index" if kind == "python-index" else "size"
        title = f"a Python {what} is baked into the graph: {names} became {new} ({changed})"
        title += at(lines)
        fix = INDEX_FIX if kind == "python-index" else SIZE_FIX
    others = sorted(set(claimed) - set(starts))
    return Finding(
        kind="python-size" if kind == "size" else kind,
        title=title,
        evidence=(
            Evidence(
                f"origin: {names}; {changed}",
                tuple(starts),
                tuple(shaped[x] for x in starts),
                lines,
            ),
            Evidence(
                f"from there it spreads to {count(spread, 'more instruction')}",
                tuple(others)[:50],
                tuple(claimed[x] for x in others)[:50],
            ),
        ),
        fix=fix,
        proof="B's dimensions were put into A at the origin and where they spread to",
        a=frozenset(claimed),
        b=frozenset(claimed.values()),
        undo=undo,
    )


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


def _sizes_in_attributes(case: Case) -> dict[int, int]:
    """Instructions whose attributes alone differ and that take or give a tensor of other shape."""
    a = case.diff.a
    changes = case.open_changes()
    shaped = {x for x, _, fields in changes if "shape" in fields}
    return {
        x: y
        for x, y, fields in changes
        if fields == ("attributes",) and any(o in shaped for o in a.operands[x])
    }
