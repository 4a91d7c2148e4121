"""State in its first step: made from constants there, an input from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.begun_sums import sums_begun
from xlagraph.facts.pieces.pieces import piece_of
from xlagraph.facts.training.updates import made_anew
from xlagraph.message import count, join, say
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.begun_sums import Begun
    from xlagraph.facts.training.updates import Made

INITIAL_STATE = Kind(
    id="initial-state",
    title="A tensor's first value is made inside the graph",
    section=Section.LIVE,
    meaning="One graph makes a tensor from constants alone, the other takes it in: a hidden state "
    "that is set back to zeros, a counter in its first step. Or the one uses a tensor of which the "
    "other takes in a copy of its own: a moving average of the weights, made by clone() or "
    "deepcopy() before the first step. Once, this is a normal part of "
    "warming up; where a later step makes the tensor anew, that step has a graph of its own.",
    before="""\
state = torch.zeros(8, 32, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    if step % 4 == 3:
        state = torch.zeros(8, 32, device="xla")  # made inside the step
    hidden = torch.tanh(model[0](x) + state)
    state = hidden.detach()
    update(loss_fn(model[2](hidden), y))
""",
    after="""\
state = torch.zeros(8, 32, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    if step % 4 == 3:
        state.zero_()
        torch_xla.sync()
    hidden = torch.tanh(model[0](x) + state)
    state = hidden.detach()
    update(loss_fn(model[2](hidden), y))
""",
    evidence="The tensors, by name where it is known.",
    fix="Expected once for a state (a hidden state, a counter), in the step after its first. To "
    "save the compile, call torch_xla.sync() once the tensor is made, before the loop; where a "
    "later step makes it anew, do the same there.",
    proof="The constants and the input become one operation.",
    examples=("hidden_state_reset",),
    short="The graph makes a tensor's first value",
    short_fix="Call torch_xla.sync() once the tensor is made, before the loop.",
)

MAKES = " makes from constants "


def find(case: Case) -> list[Finding]:
    """Tensors that one side makes from constants alone and the other takes in."""
    found = []
    for maker, taker in case.both_ways:
        groups: dict[bool, list[Made]] = {}
        for made in made_anew(case, maker, taker):
            is_state = bool(made.tensor and made.tensor.is_optimizer_state)
            groups.setdefault(is_state, []).append(made)
        found += [
            _finding(maker, taker, group, is_optimizer=is_optimizer)
            for is_optimizer, group in sorted(groups.items())
        ]
        if begun := sums_begun(case, maker, taker):
            found.append(_begun(maker, taker, begun))
    return found


def _begun(maker: SideView, taker: SideView, sums: Sequence[Begun]) -> Finding:
    """Sums that one side begins with a Python number: ``total = 0``, ``total = total + x``."""
    own = {i for one in sums for i in (one.begun, one.start)}
    others = {i for one in sums for i in (one.goes_on, one.parameter)}
    lines = where(maker.module, [one.begun for one in sums])
    cited_a, cited_b = maker.ab(own, others)

    def undo(edit: Editors) -> None:
        for one in sums:
            edit[maker.side].become_undone(one.begun, [one.added], "sum")
            edit[taker.side].become_undone(one.goes_on, [one.also_added], "sum")

    is_one = len(sums) == 1
    return Finding(
        kind=INITIAL_STATE,
        title=say(
            f"{count(len(sums), 'sum')} that ",
            maker.side,
            f" begins with a Python number {'goes' if is_one else 'go'} on in ",
            taker.side,
            f" from {'an input' if is_one else 'inputs'}",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(maker.side, " adds to a constant what ", taker.side, " adds to an input"),
                tuple(sorted(cited_a))[:50],
                tuple(sorted(cited_b))[:50],
                lines,
            ),
        ),
        fix=say(
            "Expected once, where a sum begins. For one graph begin it with a tensor on the "
            "device, torch.zeros((), device=...), and call torch_xla.sync() once that is made; "
            "where it is set back, as at each epoch's start, do the same, or call zero_() and sync."
        ),
        short=say(
            f"{count(len(sums), 'sum')} (",
            join(dict.fromkeys(short_shape(maker.module, one.begun) for one in sums)),
            f") {'begins' if is_one else 'begin'} with a Python number in ",
            maker.side,
            f", and {'goes' if is_one else 'go'} on from {'an input' if is_one else 'inputs'} in ",
            taker.side,
        ),
        short_fix=say("Begin the sum, and set it back, with a tensor; then sync."),
        proof=say("what is added stands for the sum, on both sides"),
        a=frozenset(cited_a),
        b=frozenset(cited_b),
        undo=undo,
        expected=maker.is_a,
    )


def _finding(
    maker: SideView, taker: SideView, group: Sequence[Made], *, is_optimizer: bool
) -> Finding:
    values, parameters = {made.value for made in group}, {made.parameter for made in group}
    piece = piece_of(maker, values) | values
    lines = where(maker.module, piece) or where(taker.module, parameters)
    listed = join(made.tensor or short_shape(taker.module, made.parameter) for made in group)
    side, other = maker.side, taker.side
    cited_a, cited_b = maker.ab(values, parameters)
    claimed_a, claimed_b = maker.ab(piece, parameters)
    is_one = len(group) == 1
    number = count(len(group), "state tensor" if is_optimizer else "tensor")

    def undo(edit: Editors) -> None:
        for made in group:
            partner = maker.partners[made.value]
            if partner >= 0:  # the same constants stand for something else in both, too
                edit[other].replace_uses({made.parameter: partner})
                continue
            edit[side].become_undone(made.value, (), str(made.value))
            edit[other].become_undone(made.parameter, (), str(made.value))

    return Finding(
        kind=OPTIMIZER_STATE if is_optimizer else INITIAL_STATE,
        title=say(
            f"{number} that ",
            side,
            MAKES,
            f"{'comes' if is_one else 'come'} into ",
            other,
            f" as {'an input' if is_one else 'inputs'} (",
            listed,
            ")",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    other,
                    " takes in what ",
                    side,
                    " computes from nothing but constants; a tensor's first value looks like this",
                ),
                tuple(sorted(cited_a))[:50],
                tuple(sorted(cited_b))[:50],
                lines,
            ),
        ),
        proof=say("the constants and the inputs were replaced by one operation"),
        a=frozenset(claimed_a),
        b=frozenset(claimed_b),
        undo=undo,
        expected=maker.is_a,
    )


RULE = Rule(
    name="initial-state",
    kinds=(INITIAL_STATE,),
    find=find,
    after=("layout",),
)
