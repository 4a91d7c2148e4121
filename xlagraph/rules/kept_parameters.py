"""Full parameters that FSDP kept over a step in which no bucket was emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.barriers import BARRIER
from xlagraph.cause.finding import Finding
from xlagraph.cause.rule import Rule
from xlagraph.facts.bucket_tensors import order_of, take_away_order, without_order
from xlagraph.facts.buckets import bucket_rows
from xlagraph.facts.kept_parameters import kept_evidence, kept_parameters
from xlagraph.message import A, count, say
from xlagraph.rules.buckets import BUCKET_CARRY

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors


def find(case: Case) -> list[Finding]:
    """Full parameters that came in ready-made, where neither module empties a bucket.

    Where one does, `xlagraph.rules.buckets` accounts for them.
    """
    if any(bucket_rows(view.module, view.context) for view in (case.a, case.b)) or not (
        case.diff.removed or case.diff.added
    ):
        return []
    if not any(BARRIER in view.module.opcodes for view in (case.a, case.b)):
        return []
    kept = kept_parameters(case, without_order(case))
    if not kept:
        return []

    def undo(edit: Editors) -> None:
        for editor in edit:
            take_away_order(editor)
        for one in kept:
            one.undo(edit)

    ways = {
        view.side: {i for one in kept if one.side is not view.side for i in one.way[:-1]}
        | {one.parameter for one in kept if one.side is view.side}
        | order_of(view.module)
        for view in (case.a, case.b)
    }
    sides = [view.side for view, _ in case.both_ways if any(k.side is view.side for k in kept)]
    return [
        Finding(
            kind=BUCKET_CARRY,
            title=say(
                sides[0],
                f" takes in {count(len(kept), 'full parameter')} that FSDP kept from an earlier "
                "step, since gradients still waited in a bucket; ",
                sides[0].other,
                " gathers the shards",
            ),
            evidence=tuple(kept_evidence(case, kept)),
            proof=say(
                f"{count(len(kept), 'kept parameter')} taken for what the other side gathers; "
                "barriers and tokens, which only order collectives, were taken away"
            ),
            a=frozenset(ways[A]),
            b=frozenset(ways[A.other]),
            undo=undo,
        )
    ]


RULE = Rule(
    name="kept-parameters", kinds=(), find=find, after=("buckets",), before=("early-execution",)
)
