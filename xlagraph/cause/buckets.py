"""Detector for bucketed collectives whose tensors move, or are carried over the step.

FSDP's ``reduce_scatter_bucket_size_mb`` collects gradients and reduces a bucket when it is
full (pytorch/xla issue 4160). Callbacks that outlive backward leave gradients for the next
step: they become outputs of this module and parameters of the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import clean, without_layout
from xlagraph.cause.draft import exclusive_slice, is_input
from xlagraph.cause.finding import Case, Finding, count, grouped, join
from xlagraph.cause.model import BucketRow, Context, Evidence
from xlagraph.cause.places import where
from xlagraph.cause.sides import A, B
from xlagraph.diff.match import output_values
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.graph import Module

BUCKETED = ("reduce-scatter", "all-reduce", "all-gather")
PLUMBING = frozenset({"convert", "copy", "bitcast", "reshape", "pad", "slice", "transpose"})
"""Steps that bring a tensor into the form that a bucket wants."""
CARRY_FIX = (
    "Flush the bucket at the end of every backward, so that no gradient waits for the next step "
    "(in FSDP: when the last post-backward hook has run), or set reduce_scatter_bucket_size_mb=0."
)
MAX_STEPS = 64
"""How far a bucketed tensor is followed back to where it was made."""


def bucket_rows(module: Module, context: Context) -> tuple[BucketRow, ...]:
    """The collectives that take several tensors at once, in the order of the text."""
    rows = []
    flushed = iter(context.flushed)
    for i in _buckets(module):
        origins = [origin(module, o) for o in module.operands[i]]
        names: Sequence[str] = next(flushed, ())
        if len(names) != len(origins):
            names = [_tensor_name(module, context, o) for o in origins]
        rows.append(
            BucketRow(
                i,
                module.opcodes[i],
                tuple(names),
                tuple(without_layout(clean(module.shapes[o])) for o in module.operands[i]),
                tuple(module.opcodes[o] == "parameter" for o in origins),
            )
        )
    return tuple(rows)


def _buckets(module: Module) -> list[int]:
    live_opcodes = module.opcodes
    return [
        i
        for i, opcode in enumerate(live_opcodes)
        if opcode in BUCKETED and len(module.operands[i]) > 1
    ]


def _tensor_name(module: Module, context: Context, instruction: int) -> str:
    if is_input(module, instruction):
        number = int(module.payloads[instruction])
        return context.parameters.get(number, f"parameter {number}")
    return module.names[instruction]


def origin(module: Module, instruction: int) -> int:
    """Follows a collective's operand back to the instruction that made the tensor."""
    return chain(module, instruction)[-1]


def chain(module: Module, instruction: int) -> list[int]:
    """The way from a bucketed tensor back to where it was made, both ends included.

    Tuples, barriers, reshapes and element-wise steps with a broadcast scalar (the token
    that orders collectives, a division by the world size) are passed through.
    """
    way = [instruction]
    for _ in range(MAX_STEPS):
        before = _before(module, way[-1])
        if before is None:
            break
        way.append(before)
    return way


def _before(module: Module, i: int) -> int | None:
    operands = module.operands[i]
    opcode = module.opcodes[i]
    if opcode == "get-tuple-element":
        return _element(module, i)
    if opcode in ("add", "multiply", "divide") and len(operands) == 2:
        main = [o for o in operands if not _is_spread_scalar(module, o)]
        return main[0] if len(main) == 1 else None
    return operands[0] if opcode in PLUMBING and operands else None


def _element(module: Module, i: int) -> int | None:
    """What a get-tuple-element picks out of a tuple, through optimization barriers."""
    index = module.attributes[i].get("index")
    source = module.operands[i][0]
    while module.opcodes[source] == "opt-barrier":
        source = module.operands[source][0]
    if module.opcodes[source] != "tuple" or index is None or not index.isdecimal():
        return None
    position = int(index)
    parts = module.operands[source]
    return parts[position] if position < len(parts) else None


def _is_spread_scalar(module: Module, i: int) -> bool:
    if module.opcodes[i] == "broadcast":
        i = module.operands[i][0]
    shape = read_shape(module.shapes[i])
    return not shape.dimensions and not shape.parts


def reach(module: Module, starts: Iterable[int]) -> bytearray:
    """One byte an instruction: 1 where it is, or depends on, one of `starts`."""
    reached = bytearray(len(module))
    for i in starts:
        reached[i] = 1
    is_reached = reached.__getitem__
    for i, operands in enumerate(module.operands):
        if any(map(is_reached, operands)):
            reached[i] = 1
    return reached


def _value_reach(module: Module, starts: Iterable[int]) -> bytearray:
    """As `reach`, but an element picked out of a tuple depends on that element alone."""
    reached = bytearray(len(module))
    for i in starts:
        reached[i] = 1
    is_reached = reached.__getitem__
    for i, operands in enumerate(module.operands):
        if any(map(is_reached, operands)):
            element = _element(module, i) if module.opcodes[i] == "get-tuple-element" else None
            reached[i] = element is None or reached[element]
    return reached


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """What the buckets of one module touch."""

    depends: bytearray
    """One byte an instruction: 1 where it is or depends on a bucket."""
    near: frozenset[int]
    """The instructions on the way into the buckets, and into what is updated with them."""


def _side_of(module: Module, rows: Sequence[BucketRow]) -> _Side:
    starts = [row.instruction for row in rows]
    return _Side(reach(module, starts), frozenset(_near(module, rows)))


def bucket_change(case: Case) -> list[Finding]:
    """Buckets with other tensors in them than in the other module."""
    diff = case.diff
    rows_a, rows_b = bucket_rows(diff.a, case.context_a), bucket_rows(diff.b, case.context_b)
    if _composition(rows_a) == _composition(rows_b):
        return []
    side_a, side_b = _side_of(diff.a, rows_a), _side_of(diff.b, rows_b)
    dropped_a = _bucket_outputs(case, side_a, side_b, forward=True)
    dropped_b = _bucket_outputs(case, side_b, side_a, forward=False)
    reached_a, reached_b = _reached(diff.a, side_a), _reached(diff.b, side_b)
    carried_a, carried_b = _carried(rows_a), _carried(rows_b)
    pending_a = _pending(case, rows_b, forward=True)
    pending_b = _pending(case, rows_a, forward=False)
    is_carried = bool(carried_a or carried_b or pending_a or pending_b)

    kind = (rows_b or rows_a)[0].opcode
    claimed_a = exclusive_slice(diff.a, dropped_a) | reached_a
    claimed_b = exclusive_slice(diff.b, dropped_b) | reached_b
    return [
        Finding(
            kind="bucket-carry" if is_carried else "bucket-composition",
            title=_title(kind, rows_a, rows_b, is_carried=is_carried),
            evidence=tuple(
                _side_evidence(A, diff.a, rows_a, pending_a, case.context_a)
                + _side_evidence(B, diff.b, rows_b, pending_b, case.context_b)
                + _moves(rows_a, rows_b)
            ),
            fix=CARRY_FIX
            if is_carried
            else "Fill the buckets in the same order in every step: fixed parameter order, same "
            "set of gradients.",
            proof=f"{count(len(dropped_a), 'output')} of {A} and {count(len(dropped_b), 'output')} "
            f"of {B} that pass through these {kind}s, or wait for one, were set aside",
            a=frozenset(claimed_a),
            b=frozenset(claimed_b),
            dropped_a=frozenset(dropped_a),
            dropped_b=frozenset(dropped_b),
        )
    ]


def _reached(module: Module, side: _Side) -> set[int]:
    root = module.entry_computation.root
    return {i for i, flag in enumerate(side.depends) if flag and i != root}


def _composition(rows: Sequence[BucketRow]) -> list[tuple[str, tuple[str, ...], tuple[bool, ...]]]:
    return [(row.opcode, row.shapes, row.carried) for row in rows]


def _carried(rows: Sequence[BucketRow]) -> list[str]:
    return [
        f"{name} ({shape})"
        for row in rows
        for name, shape, carried in zip(row.tensors, row.shapes, row.carried, strict=True)
        if carried
    ]


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


def _near(module: Module, rows: Sequence[BucketRow]) -> set[int]:
    """The instructions on the way into the buckets, and into what is updated with them."""
    starts = [o for row in rows for o in module.operands[row.instruction]]
    depends = _value_reach(module, [row.instruction for row in rows])
    for i, operands in enumerate(module.operands):
        if depends[i] and module.opcodes[i] in ("add", "subtract", "multiply"):
            starts += [o for o in operands if not depends[o]]
    found: set[int] = set()
    for start in starts:
        if not _is_spread_scalar(module, start):
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
            shape = without_layout(clean(side.module.shapes[value]))
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
