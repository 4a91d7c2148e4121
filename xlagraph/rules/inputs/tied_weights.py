"""Weights that are one tensor on one side and two on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import open_edges
from xlagraph.facts.pieces.split_tensors import split_tensors
from xlagraph.facts.training.updates import formula, updates
from xlagraph.message import say

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.split_tensors import Split
    from xlagraph.graph import Module

TIED_WEIGHTS = Kind(
    id="tied-weights",
    title="Weights are tied in one module and not in the other",
    section=Section.INPUTS,
    meaning="Two layers share one weight in some steps (an embedding and the output layer, most "
    "often), and have one each in others: loading a checkpoint, copying or wrapping the model "
    "breaks the tie. There is one parameter more, and its update.",
    before="""\
embedding = nn.Linear(16, 16, bias=False).to("xla")
decoder = nn.Linear(16, 16, bias=False).to("xla")
decoder.weight = embedding.weight
for step, (x, y) in enumerate(loader):
    if step == 4:
        decoder.weight = nn.Parameter(torch.randn(16, 16).to("xla"))  # a checkpoint: unties
    optimizer = torch.optim.SGD([*embedding.parameters(), *decoder.parameters()], lr=0.05)
    update(loss_fn(decoder(torch.tanh(embedding(x))), y))
""",
    after="""\
embedding = nn.Linear(16, 16, bias=False).to("xla")
decoder = nn.Linear(16, 16, bias=False).to("xla")
decoder.weight = embedding.weight
optimizer = torch.optim.SGD(embedding.parameters(), lr=0.05)
for step, (x, y) in enumerate(loader):
    if step == 4:
        with torch.no_grad():
            decoder.weight.copy_(torch.randn(16, 16))
        torch_xla.sync()
    update(loss_fn(decoder(torch.tanh(embedding(x))), y))
""",
    evidence="The parameters.",
    fix="Tie the weights again after loading or copying the model (assign one Parameter to both), "
    "before the optimizer is made.",
    proof="One tensor is used in place of both, and their updates are left out.",
    examples=("tied_weights",),
    short="Weights are tied in one graph only",
    short_fix="Tie the weights again before the optimizer is made.",
)


def find(case: Case) -> list[Finding]:
    """A weight of one side is two of the other: both are updated, each by itself.

    An average of a weight is updated too, but from the weight.
    """
    found = []
    for one, two in case.both_ways:
        of_one, of_two = updates(one.module), updates(two.module)
        for split in split_tensors(case, one, two):
            own, others = of_two.get(split.first, ()), of_two.get(split.second, ())
            if split.one in of_one and own and others and not set(own).intersection(others):
                found.append(_finding(case, one, two, split))
    return found


def _finding(case: Case, one: SideView, two: SideView, split: Split) -> Finding:
    first, second = split.first, split.second
    gone_one = _update_outputs(one.module, [split.one])
    gone_two = _update_outputs(two.module, [first, second])
    edges = [edge for edge in open_edges(case) if second in (edge.p, edge.q)]
    users_one = {edge.user(one) for edge in edges}
    users_two = {edge.user(two) for edge in edges}
    users = two.module.users
    later = max(first, second, key=lambda tensor: min(users[tensor], default=-1))
    lines = where(two.module, users[later])  # the output layer's, which is tied to the embedding
    names = say(parameter_name(two, first), " and ", parameter_name(two, second))
    cited_a, cited_b = one.ab((split.one,), (first, second))
    claimed_a, claimed_b = one.ab(
        frozenset(exclusive_slice(one.module, gone_one) | users_one),
        frozenset(exclusive_slice(two.module, gone_two) | {second} | users_two),
    )
    dropped_a, dropped_b = one.ab(frozenset(gone_one), frozenset(gone_two))

    def undo(edit: Editors) -> None:
        edit[two.side].replace_uses({max(first, second): min(first, second)})

    return Finding(
        kind=TIED_WEIGHTS,
        title=say(
            "weights are tied in ",
            one.side,
            " and not in ",
            two.side,
            ": ",
            names,
            " are one tensor there",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(one.side, " takes in one tensor where ", two.side, " takes in ", names),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        proof=say(
            "in ",
            two.side,
            " one tensor was used in place of both, and their updates left out",
        ),
        a=claimed_a,
        b=claimed_b,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        undo=undo,
    )


def _update_outputs(module: Module, parameters: list[int]) -> set[int]:
    """Outputs that are new values of these parameters, or state that those are computed from."""
    values, of_all = module.outputs, updates(module)
    found = set[int]()
    for p in parameters:
        used = set[int]().union(*(formula(module, values[k]) for k in of_all.get(p, ())))
        shape = module.shapes[p]
        found |= {k for k, v in enumerate(values) if v in used and module.shapes[v] == shape}
    return found


RULE = Rule(
    name="tied-weights",
    kinds=(TIED_WEIGHTS,),
    find=find,
    after=("early-execution",),
    first_round_only=True,
)
