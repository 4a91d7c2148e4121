"""The same outputs in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, count, grouped, join, say
from xlagraph.rules.distributed.buckets import BUCKET_CARRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.message import Message

OUTPUT_ORDER = Kind(
    id="output-order",
    title="The same outputs stand in another order",
    section=Section.LIVE,
    meaning="The outputs of a graph are the tensors that Python still holds, ordered by their "
    "creation. Iterating over a set, whose order changes, creates them in another order; layers "
    "that change places give the same shapes in each other's place.",
    before="""\
for step, (x, y) in enumerate(loader):
    out = model(x)
    kept = {}
    for name in ("mean", "norm") if step % 2 else ("norm", "mean"):  # a set, say
        kept[name] = getattr(torch, name)(out)
    update(loss_fn(out, y))
""",
    after="""\
for x, y in loader:
    out = model(x)
    kept = {}
    for name in ("mean", "norm"):
        kept[name] = getattr(torch, name)(out)
    update(loss_fn(out, y))
""",
    evidence="The positions, and the tensors by name where they are known.",
    fix="Create the tensors in the same order in every step; outputs are ordered by their "
    "creation (iterating over a set or a dict in changing order is the usual reason).",
    proof="B's outputs are put into A's order.",
    examples=("set_order", "layer_order"),
    only_proved=True,
    short="The same outputs come in another order",
    short_fix="Create tensors in the same order in every step.",
)
PLACES_FIX = say("Use the layers (or the tensors) in the same order in every step.")


def find(case: Case) -> list[Finding]:
    """The same outputs in another order; gradients that wait in buckets are older than others."""
    paired = [(s.a, s.b) for s in case.diff.outputs if s.a is not None and s.b is not None]
    moved = [
        (x, y)
        for (x, y), y_sorted in zip(paired, sorted(y for _, y in paired), strict=True)
        if y != y_sorted
    ]
    if not moved:
        return []
    b, context = case.diff.b, case.b.context
    places = tuple(b.outputs[y] for _, y in moved)
    lines = where(b, places)
    waiting = case.a.context.waiting or context.waiting
    moves = join((f"{x} -> {y}" for x, y in moved), 8)
    text = say("output positions ", A, " -> ", B, ": ", moves)
    evidence = [Evidence(text, b=places, sources=() if waiting else lines)]
    named = [context.outputs[y] for _, y in moved if y in context.outputs]
    if named:
        evidence.append(Evidence(say("among them ", grouped(named)), b=places))
    number = count(len(moved), "output")
    if waiting:
        return [_carried(case, number, evidence)]
    changed = _changed_places(case, moved)
    if changed:
        title = say(
            f"{count(len(changed), 'tensor')} took each other's places in the computation: ",
            B,
            " uses ",
            join(changed),
            at(lines),
        )
    else:
        title = say(f"{number} stand in another order", at(lines))
    return [
        Finding(
            kind=OUTPUT_ORDER,
            title=title,
            evidence=tuple(evidence),
            fix=PLACES_FIX if changed else say(),
            proof=say(B, "'s outputs were put into ", A, "'s order"),
            reorders=True,
            is_exact=True,
        )
    ]


def _carried(case: Case, number: str, evidence: Sequence[Evidence]) -> Finding:
    """Outputs that moved as gradients of earlier steps are among them."""
    pending = say(
        "reduce-scatter callbacks that waited as the step ended: "
        f"{len(case.a.context.waiting)} in ",
        A,
        f", {len(case.b.context.waiting)} in ",
        B,
        "; outputs are ordered by age, so that one left from an earlier step stands before "
        "those of this step",
    )
    return Finding(
        kind=BUCKET_CARRY,
        title=say(
            f"gradients that wait in buckets are older than the rest: {number} stand in another "
            "order"
        ),
        evidence=(*evidence, Evidence(pending)),
        proof=say(B, "'s outputs were put into ", A, "'s order"),
        reorders=True,
    )


def _changed_places(case: Case, moved: Sequence[tuple[int, int]]) -> list[Message]:
    """The moved outputs by name, if every one is another tensor in B than in A."""
    names = [(case.a.context.outputs.get(x), case.b.context.outputs.get(y)) for x, y in moved]
    found = []
    for first, second in names:
        if not first or not second or first == second:
            return []
        found.append(say(second, " in place of ", first))
    return found


RULE = Rule(
    name="output-order",
    kinds=(OUTPUT_ORDER,),
    find=find,
    after=("live-tensors",),
)
