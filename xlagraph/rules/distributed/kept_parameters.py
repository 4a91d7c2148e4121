"""Full parameters that FSDP kept over a step, where the buckets themselves are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.barriers import BARRIER
from xlagraph.cause.finding import Finding
from xlagraph.cause.rule import Rule
from xlagraph.facts.distributed.bucket_tensors import (
    ORDER_AWAY,
    order_of,
    take_away_order,
    without_order,
)
from xlagraph.facts.distributed.kept_parameters import accounted, kept_evidence, kept_parameters
from xlagraph.message import EMPTY, A, B, count, say
from xlagraph.rules.distributed.buckets import BUCKET_CARRY
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.distributed.kept_parameters import Kept

FIX = say(
    "Expected once, in the step after the first: FSDP keeps the last parameters that it gathered."
)


def find(case: Case) -> list[Finding]:
    """Full parameters that came in ready-made, where the buckets do not tell of them."""
    open_ones = {
        view.side: {i for i in view.open_lone() if view.module.opcodes[i] == "parameter"}
        for view in (case.a, case.b)
    }
    is_sharded = any(BARRIER in view.module.opcodes for view in (case.a, case.b))
    if not is_sharded or not any(open_ones.values()):
        return []
    kept = [
        one
        for one in kept_parameters(case, without_order(case))
        if one.parameter in open_ones[one.side]
    ]
    return [_finding(case, kept)] if kept else []


def _finding(case: Case, kept: Sequence[Kept]) -> Finding:
    waits = any(view.context.waiting for view in (case.a, case.b))
    side = kept[0].side

    def undo(edit: Editors) -> None:
        for editor in edit:
            take_away_order(editor)
        for one in kept:
            one.undo(edit)

    return Finding(
        kind=BUCKET_CARRY if waits else EARLY_EXECUTION,
        title=say(
            side,
            f" takes in {count(len(kept), 'full parameter')} that FSDP kept from an earlier step",
            ", since gradients still waited in a bucket; " if waits else "; ",
            side.other,
            " gathers the shards",
        ),
        evidence=tuple(kept_evidence(case, kept)),
        fix=EMPTY if waits else FIX,
        proof=say(
            f"{count(len(kept), 'kept parameter')} taken for what the other side gathers",
            "; ",
            ORDER_AWAY,
        ),
        a=accounted(kept, A) | order_of(case.diff.a),
        b=accounted(kept, B) | order_of(case.diff.b),
        undo=undo,
        expected=not waits,
    )


RULE = Rule(
    name="kept-parameters",
    kinds=(),
    find=find,
    after=("buckets",),
    before=("early-execution", "rematerialization"),
)
