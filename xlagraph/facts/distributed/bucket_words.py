"""What buckets hold, in words: how much, which first differs, what moved."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import where
from xlagraph.message import A, B, Message, count, grouped, join, say
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.cause.model import BucketRow, Member

    Rows = Sequence[BucketRow]


def extents(rows_a: Rows, rows_b: Rows) -> Message:
    """What each module reduces; where that is as much, the first bucket that differs."""
    extent_a, extent_b = _extent(rows_a), _extent(rows_b)
    if extent_a != extent_b:
        return say(A, f" reduces {extent_a}; ", B, f" reduces {extent_b}")
    return say(A, " and ", B, f" both reduce {extent_a}, but ", _first_difference(rows_a, rows_b))


def _extent(rows: Rows) -> str:
    tensors = sum(len(row.tensors) for row in rows)
    if not tensors:
        return "no bucket"
    old = sum(sum(row.carried) for row in rows)
    left = f", {old} of them left over from an earlier step" if old else ""
    return f"{count(tensors, 'tensor')} in {count(len(rows), 'bucket')}{left}"


def _first_difference(rows_a: Rows, rows_b: Rows) -> Message:
    """``bucket 2 takes 5 tensors in A and 4 in B``: of as many buckets the first that differs."""
    pairs = enumerate(zip(rows_a, rows_b, strict=True), 1)
    number, (a, b) = next(pair for pair in pairs if filled(pair[1][0]) != filled(pair[1][1]))
    bucket, in_a, in_b = f"bucket {number} takes ", say(" in ", A), say(" in ", B)
    if a.opcode != b.opcode:
        return say(f"bucket {number} is {a.opcode}", in_a, f" and {b.opcode}", in_b)
    if len(a.shapes) != len(b.shapes):
        return say(bucket, count(len(a.shapes), "tensor"), in_a, f" and {len(b.shapes)}", in_b)
    mine, theirs = Counter(_known(a)), Counter(_known(b))
    only_a, only_b = list((mine - theirs).elements()), list((theirs - mine).elements())
    if only_a and only_b:
        return say(bucket, join(only_a, 2), in_a, " and ", join(only_b, 2), in_b)
    if sum(a.carried) != sum(b.carried):
        old = count(sum(a.carried), "tensor")
        return say(bucket, f"{old} from an earlier step", in_a, f" and {sum(b.carried)}", in_b)
    return say(bucket, "the same tensors in another order")


def filled(row: BucketRow) -> tuple[object, ...]:
    """What a bucket holds, to be compared with another."""
    return row.opcode, row.shapes, row.carried


def _known(row: BucketRow) -> list[Tensor | str]:
    """The tensors of a bucket by name, or by shape: names of instructions say nothing here."""
    pairs = zip(row.tensors, row.shapes, strict=True)
    return [one if isinstance(one, Tensor) else shape for one, shape in pairs]


def side_evidence(view: SideView, rows: Rows, pending: Sequence[Message]) -> list[Evidence]:
    """Each bucket of one module with its tensors, what it leaves for later, and what waited."""
    found = []
    for k, row in enumerate(rows, 1):
        old = [t for t, c in zip(row.tensors, row.carried, strict=True) if c]
        new = [t for t, c in zip(row.tensors, row.carried, strict=True) if not c]
        parts = [say(f"{len(old)} from an earlier step (", grouped(old), ")")] if old else []
        parts += [say(f"{len(new)} from this step (", grouped(new), ")")] if new else []
        number = count(len(row.tensors), "tensor")
        found.append(
            Evidence(
                say(
                    view.side, f", bucket {k}: {row.opcode} of {number}, ", join(parts, 2, " and ")
                ),
                *view.ab((row.instruction,), ()),
                sources=where(view.module, [row.instruction]),
            )
        )
    if pending:
        number = count(len(pending), "gradient")
        left = f" leaves {number} unreduced as outputs for a later step: "
        found.append(Evidence(say(view.side, left, grouped(pending))))
    waiting = view.context.waiting
    if waiting:
        number = count(len(waiting), "reduce-scatter callback")
        found.append(
            Evidence(say(view.side, f": {number} waited as the step ended: ", grouped(waiting)))
        )
    return found


def moves(rows_a: Rows, rows_b: Rows) -> list[Evidence]:
    """Tensors known by name that sit in another bucket than before."""
    places_a, places_b = _places(rows_a), _places(rows_b)
    moved = [
        say(name, f": bucket {places_a[name]} -> {places_b[name]}")
        for name in places_a
        if name in places_b and places_a[name] != places_b[name]
    ]
    return [Evidence(say("moved between buckets: ", join(moved)))] if moved else []


def _places(rows: Rows) -> dict[Member, int]:
    """The bucket of each tensor whose name is unique, buckets counted from 1."""
    names = Counter(name for row in rows for name in row.tensors)
    return {
        name: k
        for k, row in enumerate(rows, 1)
        for name in row.tensors
        if names[name] == 1 and isinstance(name, Tensor)
    }
