"""Detector for dimensions that differ: where they come from and how far they spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level
from xlagraph.cause.counts import counting_constants
from xlagraph.cause.fills import fills
from xlagraph.cause.finding import (
    Case,
    Finding,
    attribute_text,
    count,
    join,
    parameter_name,
    short_shape,
)
from xlagraph.cause.model import Evidence
from xlagraph.cause.options import options_above
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.sizes import (
    Sizes,
    changed_sizes,
    explained,
    follows_operand,
    same_structure,
    size_keys_differ_only,
    with_dimensions,
    with_sizes,
)
from xlagraph.cause.spread import Spread, spreads
from xlagraph.diff.header import given_away
from xlagraph.diff.match import match_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.draft import Draft

INDEX_OPCODES = frozenset(
    {"slice", "dynamic-slice", "pad", "gather", "iota", "dynamic-update-slice"}
)
INDEX_FIX = (
    "Index with a tensor on the device (torch.index_select, or a dynamic slice), or move the "
    "indexing to the host before the tensor is sent."
)
DATA_FIX = (
    "Pad or drop the odd batch (drop_last=True), or bucket the sizes, so that every step sees the "
    "same shapes; where values decide about a size (masked_select, nonzero), use a mask."
)
WEIGHT_FIX = "Build the model, and its optimizer's state, with the same sizes for every step."
SIZE_FIX = (
    "Make tensors of a fixed size in every step and mask what is not used; a size that Python "
    "computes is part of the graph."
)
FIXES = {
    "python-index": INDEX_FIX,
    "python-size": SIZE_FIX,
    "attribute": "Keep this operation's options the same in every step.",
}
KINDS = ("input-shape", "python-index", "python-size")
"""From the origin that others follow to the one that follows them."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a change of sizes starts, and what follows from it; A's numbers to B's."""

    kind: str
    starts: Mapping[int, int]
    members: Mapping[int, int]
    sizes: Sizes
    options: Mapping[int, int] = field(default_factory=dict)
    """The instructions whose options made these sizes, where no Python number did."""


def shape_change(case: Case) -> list[Finding]:
    """Dimensions that differ at an origin and in all that depends on it.

    Changes that never meet, and whose sizes are not the same, are findings of their own.
    """
    a, b = case.diff.a, case.diff.b
    shaped = {
        x: y
        for x, y, fields in case.open_changes()
        if "shape" in fields and "opcode" not in fields and same_structure(a.shapes[x], b.shapes[y])
    }
    if not shaped:
        return []
    shaped = _pairs_without_sizes(case, shaped)
    found: list[Origins] = []
    for spread in spreads(case, shaped):
        if any(_may_start(case, x, y) for x, y in spread.origins):
            found += _origins(case, spread)
    return [
        _finding(case, _with_options(case, origins))
        for origins in _joined(found)
        if not _inputs_crossed(case, origins)
    ]


def _inputs_crossed(case: Case, origins: Origins) -> bool:
    """Whether the inputs of both sides have the same shapes: they were only used otherwise."""
    a, b = case.diff.a, case.diff.b
    old = Counter(a.shapes[x] for x in origins.starts)
    return origins.kind == "input-shape" and old == Counter(
        b.shapes[y] for y in origins.starts.values()
    )


def _with_options(case: Case, origins: Origins) -> Origins:
    """The origins as what they are if options made the sizes."""
    if origins.kind != "python-size":
        return origins
    options = options_above(case, origins.starts)
    return replace(origins, kind="attribute", options=options) if options else origins


def _may_start(case: Case, x: int, y: int) -> bool:
    """Whether a size can come from here.

    A called computation is given its parameters; and what has another number of dimensions
    is an input, or another step.
    """
    a = case.diff.a
    if x in a.entry_computation.parameters:
        return True
    return a.opcodes[x] != "parameter" and bool(_sizes(case, {x: y}))


def _pairs_without_sizes(case: Case, known: Mapping[int, int]) -> dict[int, int]:
    """Pairs that differ in their sizes, matched with all sizes taken for one.

    Sizes tell instructions apart that are each other's partners, and let others pair that are
    not; what only the first match paired is kept where it contradicts nothing.
    """
    a, b, live = case.diff.a, case.diff.b, case.diff.match.a.live
    to_b = match_modules(a, b, Level.SHAPES).to_b
    found = {
        x: y
        for x, y in enumerate(to_b)
        if y >= 0
        and live[x]
        and x not in case.claimed_a
        and y not in case.claimed_b
        and a.opcodes[x] == b.opcodes[y] != "tuple"
        and changed_sizes(a.shapes[x], b.shapes[y])
    }
    taken = set(to_b)
    return found | {
        x: y for x, y in known.items() if to_b[x] == y or (to_b[x] < 0 and y not in taken)
    }


def _origins(case: Case, spread: Spread) -> list[Origins]:
    """One spread by its origins: those of the first kind, then those that do not follow them."""
    starts = {x: y for x, y in spread.origins if _may_start(case, x, y)}
    kinds = {x: _kind(case, x) for x in starts}
    kind = min(kinds.values(), key=KINDS.index)
    first = {x: y for x, y in starts.items() if kinds[x] == kind}
    sizes = _sizes(case, first)
    others = {
        x: y
        for x, y in spread.pairs.items()
        if x not in first
        and _is_own_origin(case, x, y, sizes, is_start=x in starts)
        and not _fits_another(case, x, spread)
    }
    if not others:
        return [Origins(kind, first, spread.pairs, sizes)]
    other_sizes = _sizes(case, others)
    a, b = case.diff.a, case.diff.b
    unlike = {
        x: y
        for x, y in spread.pairs.items()
        if not explained(a.shapes[x], b.shapes[y], sizes)
        and explained(a.shapes[x], b.shapes[y], sizes | other_sizes)
    }
    theirs = unlike | others
    other_kind = min((_kind(case, x) for x in others), key=KINDS.index)
    return [
        Origins(kind, first, {x: y for x, y in spread.pairs.items() if x not in theirs}, sizes),
        Origins(other_kind, others, theirs, other_sizes),
    ]


def _is_own_origin(case: Case, x: int, y: int, sizes: Sizes, *, is_start: bool) -> bool:
    """Whether a size is made here that does not follow from those above."""
    a, b = case.diff.a, case.diff.b
    if explained(a.shapes[x], b.shapes[y], sizes) or follows_operand(case, x, y):
        return False
    return is_start or (a.opcodes[x] in INDEX_OPCODES and bool(_sizes(case, {x: y})))


def _fits_another(case: Case, x: int, spread: Spread) -> bool:
    """Whether a value made of constants only has the size of what it is computed with."""
    a, b, closed = case.diff.a, case.diff.b, case.diff.match.a.closed
    changed = changed_sizes(a.shapes[x], b.shapes[spread.pairs[x]])
    return bool(closed[x]) and any(
        o in spread.pairs
        and not closed[o]
        and changed_sizes(a.shapes[o], b.shapes[spread.pairs[o]]) == changed
        for user in a.users[x]
        for o in a.operands[user]
    )


def _kind(case: Case, x: int) -> str:
    a = case.diff.a
    if x in a.entry_computation.parameters:
        return "input-shape"
    return "python-index" if a.opcodes[x] in INDEX_OPCODES else "python-size"


def _sizes(case: Case, pairs: Mapping[int, int]) -> Sizes:
    a, b = case.diff.a, case.diff.b
    return frozenset(
        (old, new)
        for x, y in pairs.items()
        for _, old, new in changed_sizes(a.shapes[x], b.shapes[y])
    )


def _joined(found: Iterable[Origins]) -> list[Origins]:
    """Origins of which one's sizes are among the other's are one cause that cites them all."""
    joined: list[Origins] = []
    for origins in sorted(found, key=lambda o: (KINDS.index(o.kind), -len(o.sizes))):
        home = next((k for k, o in enumerate(joined) if origins.sizes <= o.sizes), None)
        if home is None:
            joined.append(origins)
            continue
        other = joined[home]
        starts = {**other.starts, **origins.starts} if other.kind == origins.kind else other.starts
        members = {**other.members, **origins.members}
        joined[home] = Origins(other.kind, starts, members, other.sizes)
    return joined


def _finding(case: Case, origins: Origins) -> Finding:
    a, b = case.diff.a, case.diff.b
    starts = sorted(origins.starts)
    numbers = counting_constants(case, origins.members)
    filled = fills(case, origins.members)
    members = {x: y for x, y in origins.members.items() if (x, y) not in filled.pairs}
    claimed = {**members, **_stated(case, origins), **numbers.certain, **numbers.assumed}
    claimed |= origins.options
    assumed = join(
        sorted({f"{a.payloads[x]} -> {b.payloads[y]}" for x, y in numbers.assumed.items()})
    )
    dimensions = sorted(
        {c for x in starts for c in changed_sizes(a.shapes[x], b.shapes[origins.starts[x]])}
    )
    changed = ", ".join(f"dimension {axis}: {old} -> {new}" for axis, old, new in dimensions)
    changed = f" ({changed})" if changed else ""
    lines = where(b, origins.starts.values())
    lines = lines or where(b, [u for y in origins.starts.values() for u in b.users[y]])
    new = join(short_shape(b, origins.starts[x]) for x in starts)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in claimed.items():
            draft_a.shapes[x] = with_dimensions(draft_a.shapes[x], draft_b.shapes[y])
            draft_a.attributes[x] = with_sizes(draft_a.attributes[x], draft_b.attributes[y])
            if y in draft_b.payloads and draft_a.opcodes[x] == "constant":
                draft_a.payloads[x] = draft_b.payloads[y]
        filled.undo(draft_a, draft_b)
        for x, y in origins.options.items():
            draft_a.attributes[x] = draft_b.attributes[y]

    names, title = _named(case, origins)
    title += f" became {new}{changed}{at(lines)}"
    if assumed:
        title += f"; the constant {assumed} is taken for a number of elements"
    others = sorted(set(claimed) - set(starts))
    return Finding(
        kind=origins.kind,
        title=title,
        evidence=(
            Evidence(
                f"origin: {names} became {new}{changed}",
                tuple(starts),
                tuple(origins.starts[x] for x in starts),
                lines,
            ),
            Evidence(
                f"from there it spreads to {count(len(others), 'more instruction')}",
                tuple(others)[:50],
                tuple(claimed[x] for x in others)[:50],
            ),
        ),
        fix=_fix(case, origins),
        proof=f"{B}'s dimensions were put into {A} at the origin and where they spread to"
        + (f"; that {assumed} follows from them is assumed" if assumed else ""),
        a=frozenset(claimed) | {x for x, _ in filled.pairs},
        b=frozenset(claimed.values()) | {y for _, y in filled.pairs},
        undo=undo,
    )


def _named(case: Case, origins: Origins) -> tuple[str, str]:
    """What changed its size, alone and as the beginning of a sentence."""
    a, b = case.diff.a, case.diff.b
    if origins.kind == "input-shape":
        names = join(parameter_name(a, case.context_a, x) for x in sorted(origins.starts))
        return names, f"an input has another shape: {names}"
    names = join(f"{a.opcodes[x]} {short_shape(a, x)}" for x in sorted(origins.starts))
    if origins.options:
        x, y = min(origins.options.items())
        text = attribute_text(a.attributes[x], b.attributes[y])
        return names, f"{a.opcodes[x]} has other attributes: {text}; {names}"
    what = "index" if origins.kind == "python-index" else "size"
    return names, f"a Python {what} is baked into the graph: {names}"


def _fix(case: Case, origins: Origins) -> str:
    """The advice, by what kind of tensor it is: data, or a tensor of the model."""
    if origins.kind != "input-shape":
        return FIXES[origins.kind]
    a = case.diff.a
    donated = given_away(a)
    numbers = {int(a.payloads[x]) for x in origins.starts}
    if numbers & (donated | set(case.context_a.parameters)):
        return WEIGHT_FIX
    if donated or case.context_a.parameters:
        return DATA_FIX
    return f"For data: {DATA_FIX} For a weight: {WEIGHT_FIX}"


def _stated(case: Case, origins: Origins) -> dict[int, int]:
    """Instructions whose attributes state sizes of what changed."""
    a, b = case.diff.a, case.diff.b
    return {
        x: y
        for x, y, fields in case.open_changes()
        if fields == ("attributes",)
        and any(o in origins.members for o in a.operands[x])
        and size_keys_differ_only(a.attributes[x], b.attributes[y])
    }
