"""Detector for matrix products and convolutions at another precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Attributes

KEYS = frozenset({"operand_precision", "algorithm"})


def precision_change(case: Case) -> list[Finding]:
    """Operations whose precision alone differs: one setting, one cause."""
    a, b = case.diff.a, case.diff.b
    pairs = [
        (x, y)
        for x, y, fields in case.open_changes()
        if fields == ("attributes",)
        and a.opcodes[x] in ("dot", "convolution")
        and _rest(a.attributes[x]) == _rest(b.attributes[y])
    ]
    if not pairs:
        return []
    lines = where(b, [y for _, y in pairs])
    changes = sorted({f"{_told(a.attributes[x])} -> {_told(b.attributes[y])}" for x, y in pairs})

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        for x, y in pairs:
            new = tuple(item for item in draft_b.attributes[y].items if item[0] in KEYS)
            draft_a.attributes[x] = replace(
                draft_a.attributes[x], items=_rest(draft_a.attributes[x]) + new
            )

    return [
        Finding(
            kind="matmul-precision",
            title=f"{count(len(pairs), 'matrix product')} at another precision: "
            f"{', '.join(changes)}{at(lines)}",
            evidence=(
                Evidence(
                    f"precision of the operands: {', '.join(changes)}",
                    tuple(x for x, _ in pairs),
                    tuple(y for _, y in pairs),
                    lines,
                ),
            ),
            fix="Set the precision once, before the first step (torch_xla.backends."
            "set_mat_mul_precision, jax_default_matmul_precision).",
            proof=f"{A}'s products were given {B}'s precision",
            a=frozenset(x for x, _ in pairs),
            b=frozenset(y for _, y in pairs),
            undo=undo,
        )
    ]


def _rest(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    return tuple(item for item in attributes.items if item[0] not in KEYS)


def _told(attributes: Attributes) -> str:
    return " ".join(v.strip("{}") for k, v in attributes.items if k in KEYS) or "default"
