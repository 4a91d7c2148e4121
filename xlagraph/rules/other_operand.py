"""An operation that takes another of the values that both sides have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces import OUTPUT, open_edges
from xlagraph.message import HloName, say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces import Edge
    from xlagraph.message import Message

MAX_USES = 3
"""More uses that go elsewhere are no slip of one name: more likely the pairing is wrong."""

OTHER_OPERAND = Kind(
    id="other-operand",
    title="An operation takes another value that both graphs have",
    section=Section.PIECES,
    meaning="Python picks one of several tensors that the graph has anyway: the one before or "
    "after normalization, the input in place of the target, one of two weights; or, in the turns "
    "of a loop, the true value or the predicted one (scheduled sampling). One operation is "
    "connected with another value; at most the derivative runs on through it.",
    before="""\
with torch.no_grad():
    for step, (x, y) in enumerate(loader):
        hidden = torch.tanh(model[0](x))
        gate = torch.sigmoid(hidden)
        picked = gate if step % 4 == 3 else hidden  # Python picks
        scores = model[2](torch.exp(hidden) * picked) + gate.sum()
        torch_xla.sync()
""",
    after="""\
pick = torch.zeros((), dtype=torch.bool, device="xla")
torch_xla.sync()
with torch.no_grad():
    for step, (x, y) in enumerate(loader):
        pick.copy_(torch.tensor(step % 4 == 3))
        hidden = torch.tanh(model[0](x))
        gate = torch.sigmoid(hidden)
        picked = torch.where(pick, gate, hidden)
        scores = model[2](torch.exp(hidden) * picked) + gate.sum()
        torch_xla.sync()
""",
    evidence="The operation, and what it takes on both sides.",
    fix="Take the same tensor in every step, or let the device pick: torch.where, or an index into "
    "stacked tensors.",
    proof="The operation takes in B what it takes in A.",
    examples=("another_operand",),
    only_proved=True,
    short="An operation takes another tensor in some steps",
    short_fix="Take the same tensor, or pick with torch.where.",
    may_be_meant=True,
)


def find(case: Case) -> list[Finding]:
    """Uses of a value that has a partner, where the other side uses another that has one, too.

    Only where no other cause is found: beside one, such uses show a pairing that went astray.
    """
    a, b = case.a, case.b
    if a.claimed or b.claimed:
        return []
    edges = [
        edge
        for edge in open_edges(case)
        if edge.place != OUTPUT
        and a.partners[edge.p] >= 0
        and b.partners[edge.q] >= 0
        and not (a.matched.closed[edge.p] or b.matched.closed[edge.q])
        and a.module.shapes[edge.p] == b.module.shapes[edge.q]
    ]
    if len(edges) > MAX_USES or not all(_can_undo(case, edge) for edge in edges):
        return []
    return [_finding(case, edge) for edge in edges]


def _can_undo(case: Case, edge: Edge) -> bool:
    """Whether either side can take what the other one does: operands come first."""
    return case.a.partners[edge.p] < edge.y or case.b.partners[edge.q] < edge.x


def _finding(case: Case, edge: Edge) -> Finding:
    a, b = case.a, case.b
    lines = where(b.module, [edge.y]) or where(a.module, [edge.x])
    in_b = a.partners[edge.p]

    def undo(edit: Editors) -> None:
        if in_b < edge.y:
            edit.b.set_operand(edge.y, edge.place, in_b)
        else:
            edit.a.set_operand(edge.x, edge.place, b.partners[edge.q])

    return Finding(
        kind=OTHER_OPERAND,
        title=say(
            b.module.opcodes[edge.y],
            " takes ",
            _name(b, edge.q),
            " in ",
            b.side,
            " and ",
            _name(a, edge.p),
            " in ",
            a.side,
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    "both sides have both; operand ",
                    str(edge.place),
                    " of ",
                    HloName(b.module.names[edge.y], b.module.opcodes[edge.y]),
                ),
                (edge.x, edge.p),
                (edge.y, edge.q),
                lines,
            ),
        ),
        proof=say("it was given the same value on both sides"),
        a=frozenset({edge.x}),
        b=frozenset({edge.y}),
        undo=undo,
    )


def _name(view: SideView, i: int) -> Message:
    module = view.module
    if i in module.entry_computation.parameters:
        return parameter_name(view, i)
    return say(HloName(module.names[i], module.opcodes[i]), f" ({short_shape(module, i)})")


RULE = Rule(
    name="other-operand",
    kinds=(OTHER_OPERAND,),
    find=find,
    after=("replaced-subgraph",),
    before=("extra-effect",),
    first_round_only=True,
)
