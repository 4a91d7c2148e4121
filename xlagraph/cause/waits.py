"""Detector for instructions that wait for others, by ``control-predecessors``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, join
from xlagraph.cause.model import Evidence
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.cause.draft import Draft
    from xlagraph.graph import Module


def wait_change(case: Case) -> list[Finding]:
    """The same instructions, forced into another order than the values ask for."""
    a, b = case.diff.a, case.diff.b
    pairs = [(x, y) for x, y, fields in case.open_changes() if fields == ("controls",)]
    if not pairs:
        return []
    own_a, own_b = frozenset(x for x, _ in pairs), frozenset(y for _, y in pairs)
    x, y = pairs[0]
    lines = where(b, own_b)
    told = f"{a.opcodes[x]} {a.names[x]} waits for {_before(a, x)} in {A}"
    told += f" and for {_before(b, y)} in {B}"
    more = f" (and {count(len(pairs) - 1, 'more instruction')})" if len(pairs) > 1 else ""

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        _wait_for_nothing(draft_a, own_a)
        _wait_for_nothing(draft_b, own_b)

    return [
        Finding(
            kind="attribute",
            title=f"{told}{more}{at(lines)}",
            evidence=(Evidence(told, tuple(sorted(own_a)), tuple(sorted(own_b)), lines),),
            fix="Ask for the same order of execution in every step.",
            proof="these instructions were made to wait for nothing",
            a=own_a,
            b=own_b,
            undo=undo,
        )
    ]


def _before(module: Module, i: int) -> str:
    return join(module.names[p] for p in module.controls.get(i, ())) or "nothing"


def _wait_for_nothing(draft: Draft, instructions: Collection[int]) -> None:
    controls = {i: c for i, c in draft.module.controls.items() if i not in instructions}
    draft.module = replace(draft.module, controls=controls)
