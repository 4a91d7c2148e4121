"""Detector for bucketed collectives whose tensors move, or are carried over the step.

FSDP's ``reduce_scatter_bucket_size_mb`` collects gradients and reduces a bucket when it is
full (pytorch/xla issue 4160). Callbacks that outlive backward leave gradients for the next
step: they become outputs of this module and parameters of the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.bucket_rows import (
    MAX_STEPS,
    bucket_rows,
    chain,
    is_spread_scalar,
    origin,
    reach,
    value_reach,
)
from xlagraph.cause.draft import exclusive_slice
from xlagraph.cause.finding import Case, Finding, count, grouped, join
from xlagraph.cause.model import BucketRow, Context, Evidence
from xlagraph.cause.places import where
from xlagraph.cause.sides import A, B
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module

    Identities = Sequence[Sequence[tuple[object, ...]]]

CARRY_FIX = (
    "Flush the bucket at the end of every backward, so that no gradient waits for the next step "
    "(in FSDP: when the last post-backward hook has run), or set reduce_scatter_bucket_size_mb=0."
)
ORDER_FIX = (
    "Fill the buckets in the same order in every step: fixed parameter order, same set of "
    "gradients."
)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """What the buckets of one module touch."""

    depends: bytearray
    """One byte an instruction: 1 where it is or depends on a bucket."""
    near: frozenset[int]
    """The instructions on the way into the buckets, and into what is updated with them."""


def _side_of(module: Module, rows: Sequence[BucketRow]) -> _Side:
    starts = [row.instruction for row in rows]
    return _Side(reach(module, starts), frozenset(near_buckets(module, rows)))


def bucket_order(case: Case) -> list[Finding]:
    """The same tensors in every bucket as in the other module, in another order."""
    rows_a, rows_b, ids_a, ids_b = _buckets_of(case)
    if ids_a == ids_b or list(map(Counter, ids_a)) != list(map(Counter, ids_b)):
        return []
    return [_order_finding(case, rows_a, rows_b, ids_a, ids_b)]


def bucket_change(case: Case) -> list[Finding]:
    """Buckets with other tensors in them than in the other module."""
    rows = other_buckets(case)
    return [] if rows is None else [composition_finding(case, *rows)]


def other_buckets(case: Case) -> tuple[Sequence[BucketRow], Sequence[BucketRow]] | None:
    """The buckets of both modules, if they take other tensors."""
    rows_a, rows_b, ids_a, ids_b = _buckets_of(case)
    is_order = list(map(Counter, ids_a)) == list(map(Counter, ids_b))
    if is_order or _composition(rows_a) == _composition(rows_b):
        return None
    return rows_a, rows_b


def _buckets_of(
    case: Case,
) -> tuple[Sequence[BucketRow], Sequence[BucketRow], Identities, Identities]:
    diff = case.diff
    rows_a, rows_b = bucket_rows(diff.a, case.context_a), bucket_rows(diff.b, case.context_b)
    return (
        rows_a,
        rows_b,
        [_identities(case, row, forward=True) for row in rows_a],
        [_identities(case, row, forward=False) for row in rows_b],
    )


def _identities(case: Case, row: BucketRow, *, forward: bool) -> list[tuple[object, ...]]:
    """The tensors of a bucket, comparable between the modules: by partner, else by kind."""
    match = case.diff.match
    module, partners = (match.a.module, match.to_b) if forward else (match.b.module, match.to_a)
    found: list[tuple[object, ...]] = []
    operands = module.operands[row.instruction]
    for o, shape, carried in zip(operands, row.shapes, row.carried, strict=True):
        i = origin(module, o)
        known = (partners[i] if forward else i) if partners[i] >= 0 else -1
        found.append((row.opcode, shape, carried, known))
    return found


def _order_finding(
    case: Case,
    rows_a: Sequence[BucketRow],
    rows_b: Sequence[BucketRow],
    ids_a: Identities,
    ids_b: Identities,
) -> Finding:
    """The same tensors in every bucket, in another order."""
    a, b = case.diff.a, case.diff.b
    results: list[tuple[list[int], list[int]]] = []
    evidence = []
    for number, (row_a, row_b) in enumerate(zip(rows_a, rows_b, strict=True)):
        first, second = ids_a[number], ids_b[number]
        if first == second:
            continue
        places: dict[object, list[int]] = {}
        for k in reversed(range(len(second))):
            places.setdefault(second[k], []).append(k)
        moves = [(k, places[identity].pop()) for k, identity in enumerate(first)]
        results += [
            (_results(a, row_a.instruction, j), _results(b, row_b.instruction, k)) for j, k in moves
        ]
        moved = [f"{row_a.tensors[j]}: place {j} -> {k}" for j, k in moves if j != k]
        evidence.append(
            Evidence(
                f"bucket {number + 1}: {join(moved)}",
                (row_a.instruction,),
                (row_b.instruction,),
                where(b, [row_b.instruction]),
            )
        )

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for in_a, in_b in results:
            if in_a and in_b:
                draft_a.become_parameter(in_a, draft_a.shapes[in_a[0]])
                draft_b.become_parameter(in_b, draft_b.shapes[in_b[0]])

    kind = rows_b[0].opcode
    return Finding(
        kind="bucket-composition",
        title=f"{count(len(evidence), f'{kind} bucket')} "
        f"{'takes' if len(evidence) == 1 else 'take'} the same tensors in another order",
        evidence=tuple(evidence),
        fix=ORDER_FIX,
        proof=f"what each tensor becomes in its {kind} was made a parameter on both sides",
        a=frozenset(i for e in evidence for i in e.a).union(*(x for x, _ in results)),
        b=frozenset(i for e in evidence for i in e.b).union(*(y for _, y in results)),
        undo=undo,
    )


def _results(module: Module, bucket: int, place: int) -> list[int]:
    """What picks the element at `place` out of a bucket's result."""
    index = str(place)
    return [
        u
        for u in module.users[bucket]
        if module.opcodes[u] == "get-tuple-element" and module.attributes[u].get("index") == index
    ]


def composition_finding(
    case: Case, rows_a: Sequence[BucketRow], rows_b: Sequence[BucketRow]
) -> Finding:
    """Other tensors in the buckets: more, fewer, or moved from one to another."""
    diff = case.diff
    side_a, side_b = _side_of(diff.a, rows_a), _side_of(diff.b, rows_b)
    dropped_a = _bucket_outputs(case, side_a, side_b, forward=True)
    dropped_b = _bucket_outputs(case, side_b, side_a, forward=False)
    reached_a, reached_b = _reached(diff.a, side_a), _reached(diff.b, side_b)
    pending_a = _pending(case, rows_b, forward=True)
    pending_b = _pending(case, rows_a, forward=False)
    is_carried = bool(pending_a or pending_b) or _carried(rows_a) != _carried(rows_b)
    kind = (rows_b or rows_a)[0].opcode
    claimed_a = exclusive_slice(diff.a, dropped_a) | reached_a
    claimed_b = exclusive_slice(diff.b, dropped_b) | reached_b
    return Finding(
        kind="bucket-carry" if is_carried else "bucket-composition",
        title=_title(kind, rows_a, rows_b, is_carried=is_carried),
        evidence=tuple(
            _side_evidence(A, diff.a, rows_a, pending_a, case.context_a)
            + _side_evidence(B, diff.b, rows_b, pending_b, case.context_b)
            + _moves(rows_a, rows_b)
        ),
        fix=CARRY_FIX if is_carried else ORDER_FIX,
        proof=f"{count(len(dropped_a), 'output')} of {A} and {count(len(dropped_b), 'output')} "
        f"of {B} that pass through these {kind}s, or wait for one, were set aside, "
        "not compared",
        a=frozenset(claimed_a),
        b=frozenset(claimed_b),
        dropped_a=frozenset(dropped_a),
        dropped_b=frozenset(dropped_b),
    )


def _reached(module: Module, side: _Side) -> set[int]:
    root = module.entry_computation.root
    return {i for i, flag in enumerate(side.depends) if flag and i != root}


def _composition(rows: Sequence[BucketRow]) -> list[tuple[str, tuple[str, ...], tuple[bool, ...]]]:
    return [(row.opcode, row.shapes, row.carried) for row in rows]


def _carried(rows: Sequence[BucketRow]) -> Counter[str]:
    """The shapes of tensors left over from an earlier step."""
    return Counter(
        shape
        for row in rows
        for shape, carried in zip(row.shapes, row.carried, strict=True)
        if carried
    )


def _title(
    kind: str, rows_a: Sequence[BucketRow], rows_b: Sequence[BucketRow], *, is_carried: bool
) -> str:
    def side(name: str, rows: Sequence[BucketRow]) -> str:
        tensors = sum(len(row.tensors) for row in rows)
        if not tensors:
            return f"{name} reduces no bucket"
        old = sum(sum(row.carried) for row in rows)
        text = f"{name} reduces {count(tensors, 'tensor')} in {count(len(rows), 'bucket')}"
        return text + (f", {old} of them left over from an earlier step" if old else "")

    what = "carry tensors over the step" if is_carried else "are composed differently"
    return f"{kind} buckets {what}: {side(A, rows_a)}; {side(B, rows_b)}"


def _bucket_outputs(case: Case, own: _Side, other: _Side, *, forward: bool) -> set[int]:
    """Outputs that depend on a bucket, or that the other side puts into one."""
    match = case.diff.match
    partners = match.to_b if forward else match.to_a
    found = set()
    values = output_values((match.a if forward else match.b).module)
    for slot in case.diff.outputs:
        k, paired = (slot.a, slot.b) if forward else (slot.b, slot.a)
        if k is None:
            continue
        value = values[k]
        waits = value in own.near or partners[value] in other.near
        if own.depends[value] or (waits and paired is None):
            found.add(k)
    return found


def near_buckets(module: Module, rows: Sequence[BucketRow]) -> set[int]:
    """The instructions on the way into the buckets, and into what is updated with them."""
    starts = [o for row in rows for o in module.operands[row.instruction]]
    depends = value_reach(module, [row.instruction for row in rows])
    for i, operands in enumerate(module.operands):
        if depends[i] and module.opcodes[i] in ("add", "subtract", "multiply"):
            starts += [o for o in operands if not depends[o]]
    found: set[int] = set()
    for start in starts:
        if not is_spread_scalar(module, start):
            found.update(chain(module, start))
    return found


def _pending(case: Case, other: Sequence[BucketRow], *, forward: bool) -> list[str]:
    """Outputs of this side that the other side puts into a bucket in the same step."""
    match = case.diff.match
    side, there = (match.a, match.b) if forward else (match.b, match.a)
    context = case.context_a if forward else case.context_b
    partners = match.to_b if forward else match.to_a
    names = {
        i: name
        for row in other
        for o, name in zip(there.module.operands[row.instruction], row.tensors, strict=True)
        for i in chain(there.module, o)[:MAX_STEPS]
    }
    found = []
    taken: set[str] = set()
    for k, value in enumerate(output_values(side.module)):
        name = names.get(partners[value])
        if name and name not in taken:
            taken.add(name)
            shape = bare_shape(side.module, value)
            found.append(f"{context.outputs.get(k) or name} ({shape})")
    return found


def _side_evidence(
    name: str,
    module: Module,
    rows: Sequence[BucketRow],
    pending: list[str],
    context: Context,
) -> list[Evidence]:
    found = []
    place = "a" if name == A else "b"
    for k, row in enumerate(rows, 1):
        old = [t for t, c in zip(row.tensors, row.carried, strict=True) if c]
        new = [t for t, c in zip(row.tensors, row.carried, strict=True) if not c]
        parts = [f"{len(old)} from an earlier step ({grouped(old)})"] if old else []
        parts += [f"{len(new)} from this step ({grouped(new)})"] if new else []
        cited = {place: (row.instruction,)}
        found.append(
            Evidence(
                f"{name}, bucket {k}: {row.opcode} of {count(len(row.tensors), 'tensor')}, "
                + " and ".join(parts),
                sources=where(module, [row.instruction]),
                **cited,
            )
        )
    if pending:
        found.append(
            Evidence(
                f"{name} leaves {count(len(pending), 'gradient')} unreduced as outputs for a "
                f"later step: {grouped(pending)}"
            )
        )
    if context.waiting:
        found.append(
            Evidence(
                f"{name}: {count(len(context.waiting), 'reduce-scatter callback')} pending as "
                f"the sync began: {grouped(context.waiting)}"
            )
        )
    return found


def _moves(rows_a: Sequence[BucketRow], rows_b: Sequence[BucketRow]) -> list[Evidence]:
    """Tensors known by name that sit in another bucket than before."""
    places_a, places_b = _places(rows_a), _places(rows_b)
    moved = [
        f"{name}: bucket {places_a[name]} -> {places_b[name]}"
        for name in places_a
        if name in places_b and places_a[name] != places_b[name]
    ]
    return [Evidence(f"moved between buckets: {join(moved)}")] if moved else []


def _places(rows: Sequence[BucketRow]) -> dict[str, int]:
    """The bucket of each tensor whose name is unique, buckets counted from 1."""
    names = Counter(name for row in rows for name in row.tensors)
    return {
        name: k
        for k, row in enumerate(rows, 1)
        for name in row.tensors
        if names[name] == 1 and not name.startswith(("parameter ", "get-tuple-element"))
    }
