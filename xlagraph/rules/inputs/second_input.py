"""A tensor that one side takes in for itself where the other uses one that both have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges
from xlagraph.facts.pieces.split_tensors import Split, split_tensors
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.updates import updates
from xlagraph.message import EMPTY, Code, count, join, say
from xlagraph.rules.inputs.initial_state import INITIAL_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

SECOND_INPUT = Kind(
    id="second-input",
    title="One side takes in a tensor of its own where the other uses one that both have",
    section=Section.INPUTS,
    meaning="A target beside the input, a memory, a frozen copy of a network: in some steps it is "
    "the same tensor as another one, in others a tensor of its own, and so an input more.",
    before="""\
target = model  # the target network is the network itself ...
for step, (x, y) in enumerate(loader):
    if step == 4:
        target = copy.deepcopy(model)  # ... until the first copy is made
        torch_xla.sync()
    update((model(x) - target(x + 1).detach()).pow(2).mean())
""",
    after="""\
target = copy.deepcopy(model)
torch_xla.sync()
for x, y in loader:
    update((model(x) - target(x + 1).detach()).pow(2).mean())
""",
    evidence="The parameters, and how many uses they have.",
    fix="If both are meant to be one tensor, use that one in every step. If not (a target beside "
    "the input, a frozen copy of a network), let them be two from the first step on: a copy made "
    "before the loop (clone(), then torch_xla.sync()).",
    proof="The side with two is given the tensor that the other uses in place of the second one.",
    examples=("target_of_its_own", "target_network"),
    short="One input here is two inputs there",
    may_be_meant=True,
    short_fix="Use one tensor in every step, or two from the start.",
)

COPIED_FIX = say(
    "Where the values of one network were just copied into another (a target network, an average), "
    "torch_xla lets both share one buffer, and so one input, until either changes: copy_() and "
    "load_state_dict() do that with what has its values on the device already. Copy through the "
    "host (",
    Code("v.cpu()"),
    "), or blend in every step by a tensor. If both are meant to be one network, use that one in "
    "every step.",
)
COPIED_SHORT_FIX = say("Copy through the host (.cpu()), or use one tensor in every step.")
MIN_COPIED = 3
"""So many weights at least are those of a network."""


def find(case: Case) -> list[Finding]:
    """One side takes in a tensor where the other uses one that both have.

    It never updates it (of two it is the other one where the first is updated on both sides), or
    it is an average: its new value is computed from itself and from the other's new value.
    """
    found = []
    for one, two in case.both_ways:
        of_one, of_two = updates(one.module), updates(two.module)
        read, averages = [], []
        for split in split_tensors(case, one, two):
            tied, first, second = split
            if set(of_two.get(first, ())) & set(of_two.get(second, ())):
                averages.append(split)
                continue
            if second in of_two and tied in of_one:
                first, second = second, first
            if second not in of_two and not two.claimed.intersection((first, second)):
                read.append(Split(tied, first, second))
        found += [_finding(case, one, two, read)] if read else []
        found += [_finding(case, one, two, averages, INITIAL_STATE)] if averages else []
    return found


def _finding(
    case: Case,
    one: SideView,
    two: SideView,
    splits: Sequence[Split],
    kind: Kind = SECOND_INPUT,
) -> Finding:
    side, other = one.side, two.side
    partners = {split.second: split.first for split in splits}
    both = {*partners, *partners.values()}
    uses = [edge for edge in open_edges(case) if edge.value(two) in both]
    users_one = {edge.user(one) for edge in uses if edge.place != OUTPUT}
    users_two = {edge.user(two) for edge in uses if edge.place != OUTPUT}
    lines = where(two.module, users_two)
    firsts = dict.fromkeys(split.first for split in splits)
    used = join(parameter_name(two, first) for first in firsts)
    new = join(parameter_name(two, split.second) for split in splits)
    cited_a, cited_b = one.ab(
        tuple(sorted({split.one for split in splits})), tuple(sorted(partners))
    )
    claimed_a, claimed_b = one.ab(frozenset(users_one), frozenset(users_two | both))
    short = EMPTY
    is_copied = kind is SECOND_INPUT and len(splits) >= MIN_COPIED and not is_jitted(two.module)
    if kind is INITIAL_STATE:
        rest = say("where ", side, " still uses what they are copies of")
    elif len(splits) == 1:
        short = say(side, " uses ", used, " also where ", other, " uses another input, ", new)
        rest = say("beside ", used, ", where ", side, " uses one for both")
    else:
        rest = say("where ", side, " uses tensors that it takes in anyway")
    if is_copied:
        pair = (parameter_name(two, i) for i in (splits[0].first, splits[0].second))
        told = (f" takes in one tensor {len(splits)} times where ", other, " takes in two (")
        named = join(pair, 2, " and ")
        short = say(side, *told, named, "), as of weights that were just copied")

    def undo(edit: Editors) -> None:
        later = {max(pair): min(pair) for pair in partners.items()}  # operands come first
        edit[other].replace_uses(later)

    return Finding(
        kind=kind,
        title=say(
            other, f" takes in {count(len(splits), 'tensor')} more (", new, ") ", rest, at(lines)
        ),
        evidence=(
            Evidence(
                say(
                    f"{count(len(uses), 'use')} of ",
                    new,
                    " or ",
                    used,
                    " in ",
                    other,
                    ", where ",
                    side,
                    " has one in place of both",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        fix=COPIED_FIX if is_copied else EMPTY,
        short=short,
        short_fix=COPIED_SHORT_FIX if is_copied else EMPTY,
        proof=say(other, " was given the tensor that ", side, " uses in place of the second one"),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
        expected=one.is_a and kind is INITIAL_STATE,
    )


RULE = Rule(
    name="second-input",
    kinds=(SECOND_INPUT,),
    find=find,
    after=("newly-updated",),
    rematches=True,
)
