"""Python numbers that count special in other operations, and what pairs off otherwise by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff


def with_special(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one, and first, suspicions that a number is another special one.

    Of values that are alike but for their numbers, such as bands of frequencies, those with a
    constant pair off with each other wherever they stand: then they are joined in another order,
    and their numbers are shared with others.
    """
    special = [cause for cause in causes if cause.kind is SPECIAL_SCALAR]
    joined = any(
        cause.kind is REORDERED_OPERANDS and _opcodes(diff, cause) == {"concatenate"}
        for cause in causes
    )
    if not special or not joined or any(cause.proved for cause in causes):
        return list(causes)
    follow = [cause for cause in causes if cause not in special and _follows(diff, cause)]
    main, *_ = special
    others = [cause for cause in causes if cause is not main]
    return merged([main, *others], main, [*special, *follow])


def _follows(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of numbers alone, or of the order in which values are joined."""
    if cause.kind is EXTRA_SUBGRAPH:
        own = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
        opcodes = {
            m.opcodes[i] for m, some in zip((diff.a, diff.b), own, strict=True) for i in some
        }
        return opcodes <= {"constant", "broadcast"}
    return cause.kind in (REORDERED_OPERANDS, SHARED_SCALAR)


def _opcodes(diff: Diff, cause: Cause) -> set[str]:
    """What the operations are that a cause is of."""
    return {diff.a.opcodes[i] for i in cause.a} | {diff.b.opcodes[i] for i in cause.b}
