"""A piece of graph that one side computes on the way, and the other does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, operations, where
from xlagraph.facts.pieces import OUTPUT, Edge, computed, open_edges, piece_of, pieces
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

BRANCH_FIX = (
    "Control flow in Python took another branch here (clipping, a train/eval flip, a condition on "
    "the step): do the same work in every step, for example with torch.where."
)
EXTRA_SUBGRAPH = Kind(
    id="extra-subgraph",
    title="One side computes more on the way",
    section=Section.PIECES,
    meaning="Control flow in Python took another branch: gradients are clipped in some steps, "
    "dropout is off, one more batch is accumulated, the loss has another term. Over a run, three "
    "or more graphs whose sizes stand whole pieces apart, without growth, are a Python loop or "
    "list of another length.",
    before="""\
for step, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y)
    if step >= 4:
        loss = loss + 0.01 * sum(p.pow(2).sum() for p in model.parameters())
    update(loss)
""",
    after="""\
penalty = torch.zeros((), device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    if step == 4:
        penalty.copy_(torch.tensor(0.01))
        torch_xla.sync()
    loss = loss_fn(model(x), y)
    update(loss + penalty * sum(p.pow(2).sum() for p in model.parameters()))
""",
    evidence="The instructions of the piece, and their lines; over a run the sizes.",
    fix=BRANCH_FIX,
    proof="The piece is bypassed.",
    examples=(
        "flag_branch",
        "eval_dropout",
        "accumulation_count",
        "accumulation_ramp",
        "unrolled_loop",
        "clip_in_python",
        "scan_clip",
        "call_more",
    ),
    family=Family.BRANCH,
    is_piece=True,
    may_grow=True,
    short="A piece is computed in some steps only",
    short_fix="Do the same work in every step, with torch.where for example.",
)


def find(case: Case) -> list[Finding]:
    """One side computes something more on the way, and hands the result on in its place."""
    edges = open_edges(case)
    return [
        _finding(more, less, group)
        for more, less in reversed(case.both_ways)
        for group in pieces(case, _bypassed(more, less, edges))
    ]


def _bypassed(more: SideView, less: SideView, edges: Sequence[Edge]) -> list[Edge]:
    """Edges where one side uses a value of its own and the other one that both have."""
    return [
        edge
        for edge in edges
        if more.partners[edge.value(more)] < 0 <= less.partners[edge.value(less)]
        and edge.value(more) not in more.claimed
    ]


def _finding(more: SideView, less: SideView, edges: Sequence[Edge]) -> Finding:
    module, side, other = more.module, more.side, less.side
    rewired = {edge: less.partners[edge.value(less)] for edge in edges}
    piece = piece_of(more, [edge.value(more) for edge in rewired])
    acting = [i for i in piece if has_effect(module, i)]
    number = count(computed(module, piece), "instruction")
    lines = where(module, piece)
    users_a = {edge.x for edge in rewired if edge.place != OUTPUT}
    users_b = {edge.y for edge in rewired if edge.place != OUTPUT}
    piece_a, piece_b = more.ab(piece, set[int]())
    cited_a, cited_b = (piece, users_b) if more.is_a else (users_a, piece)

    def undo(edit: Editors) -> None:
        editor = edit[side]
        for i in acting:
            editor.become_undone(i, ())
        for edge, replacement in rewired.items():
            if edge.place == OUTPUT:
                editor.replace_outputs({edge.value(more): replacement})
            else:
                editor.set_operand(edge.user(more), edge.place, replacement)

    return Finding(
        kind=EXTRA_SUBGRAPH,
        title=say(
            side,
            f" computes {number} more than ",
            other,
            at(lines),
            f" before {count(len(rewired), 'use')} that both have",
        ),
        evidence=(
            Evidence(
                say(
                    side,
                    f" puts {number}",
                    operations(module, piece),
                    " between values that ",
                    other,
                    " connects directly",
                ),
                tuple(sorted(cited_a))[:50],
                tuple(sorted(cited_b))[:50],
                lines,
            ),
        ),
        proof=say(f"the {count(len(piece), 'extra instruction')} of ", side, " were bypassed"),
        a=frozenset(piece_a | users_a),
        b=frozenset(piece_b | users_b),
        undo=undo,
    )


RULE = Rule(
    name="extra-subgraph",
    kinds=(EXTRA_SUBGRAPH,),
    find=find,
    after=("repeated-expression",),
)
