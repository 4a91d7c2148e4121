"""Expressions that stand more often on one side than on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import where
from xlagraph.facts.pieces.repeats import repeats
from xlagraph.facts.values.expressions import merge_both
from xlagraph.message import A, B, count, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.facts.pieces.repeats import Repeats
    from xlagraph.message import Message

REPEATED_EXPRESSION = Kind(
    id="repeated-expression",
    title="An expression stands more often on one side",
    section=Section.PIECES,
    meaning="The same value is computed twice where the other module computes it once: a view or a "
    "copy is traced in some steps only, or a shared value lost its sharing. XLA merges equal "
    "expressions, and torch_xla's cache key does not tell them apart, so this is named only where "
    "nothing else differs.",
    before="""\
def forward(x, view):
    hidden = torch.relu(model[0](x))
    return model[2](hidden.view(8, 32) if view else hidden)  # the same values, one view more


for step, (x, y) in enumerate(loader):
    update(forward(x, step % 4 == 3).pow(2).mean())
""",
    after="""\
for x, y in loader:
    update(model[2](torch.relu(model[0](x))).pow(2).mean())
""",
    evidence="The copies.",
    fix="Trace the same in every step: a view or a copy that is made in some steps only leaves the "
    "value as it is, yet it is part of the cache key.",
    proof="Equal expressions are merged in both modules.",
    examples=("repeated_view",),
    is_piece=True,
    short="Some steps trace one more view or copy",
    short_fix="Trace the same views and copies in every step.",
)


def find(case: Case) -> list[Finding]:
    """An expression stands twice where the other module has it once: equal after CSE."""
    found = repeats(case)
    if not (found.a or found.b):
        return []
    a, b = case.diff.a, case.diff.b
    number = len(found.copies_a) + len(found.copies_b) or len(found.users)
    lines = where(b, found.copies_b) or where(a, found.copies_a)
    return [
        Finding(
            kind=REPEATED_EXPRESSION,
            title=_title(found, number),
            evidence=(
                Evidence(
                    say("equal expressions that one graph computes once and the other again"),
                    tuple(sorted(found.copies_a)),
                    tuple(sorted(found.copies_b)),
                    lines,
                ),
            ),
            proof=say("equal expressions were merged in both modules"),
            a=found.a,
            b=found.b,
            undo=merge_both,
            incidental=True,
        )
    ]


def _title(found: Repeats, number: int) -> Message:
    values = count(number, "value")
    if bool(found.copies_a) == bool(found.copies_b):
        return say(A, " and ", B, f" compute {values} differently often")
    more, less = (A, B) if found.copies_a else (B, A)
    return say(more, f" computes {values} more often than ", less)


RULE = Rule(
    name="repeated-expression",
    kinds=(REPEATED_EXPRESSION,),
    find=find,
    after=("output-order",),
)
