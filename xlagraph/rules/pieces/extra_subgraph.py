"""A piece of graph that one side computes on the way, and the other does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import at, is_forward, knows_lines, line_of, where
from xlagraph.facts.distributed.device_index import device_index
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.training.gradient_losses import gradient_loss
from xlagraph.facts.training.gradients import uses_of
from xlagraph.facts.training.optimizers import runs_in_optimizer
from xlagraph.facts.training.updates import updates
from xlagraph.facts.values.telling import HEAVY, in_some_steps, telling_opcodes
from xlagraph.message import HloName, join, say
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.training.optimizer_state import BLOCK_FIX, BLOCK_SHORT_FIX, SKIPPED_BLOCK

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

MAX_SHOWN = 3
"""More uses that take another value are no slip of one name."""
BRANCH_FIX = (
    "Control flow in Python took another branch here: this is computed in some steps and not in "
    "others. Do the same work in every step: select with torch.where, or multiply the term by a "
    "number that is nearly zero (not 0: that leaves it out again)."
)
EXTRA_SUBGRAPH = Kind(
    id="extra-subgraph",
    title="One side computes more on the way",
    section=Section.PIECES,
    meaning="Control flow in Python took another branch: a condition on the step, the loss has "
    "another term. What is known better has a kind of its own: dropout, clipping, an option of the "
    "optimizer, one more pass. Over a run, three or more graphs whose sizes stand whole pieces "
    "apart, without growth, are a Python loop or list of another length.",
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
        "unrolled_loop",
        "scan_clip",
        "call_more",
    ),
    family=Family.BRANCH,
    is_piece=True,
    may_grow=True,
    short="A piece is computed in some steps only",
    short_fix="Do the same work in every step, with torch.where for example.",
    may_be_meant=True,
)


class _Combined(NamedTuple):
    """What is said of a value that is combined with another one."""

    done: str
    short: Message
    short_fix: Message


_FACTOR = say("A factor is multiplied in some steps only")
_TERM = say("A term is added in some steps only")
_BY_ONE = say("Multiply in every step, by ones where it is unwanted.")
_BY_ZERO = say("Add it in every step, times a tensor of 0 or 1.")
_COMBINED = {
    "multiply": _Combined("times", _FACTOR, _BY_ONE),
    "divide": _Combined("divided by", _FACTOR, _BY_ONE),
    "add": _Combined("and", _TERM, _BY_ZERO),
    "subtract": _Combined("and", _TERM, _BY_ZERO),
}
BACKWARD_SHORT = say("The backward pass computes more in some steps")
BACKWARD_SHORT_FIX = say("Keep create_graph, detach() and the loss's terms alike in every step.")
BACKWARD_FIX = say(
    "All of this is derivatives: the program sends gradients further on one side "
    "(create_graph=True, a detach() or no_grad() left out), or its loss has another term. Do the "
    "same in every step: what is to be switched can be multiplied by a number that is nearly zero "
    "(not 0: that leaves it out again)."
)

PENALTY = "A gradient penalty"
PENALTY_SHORT = say(PENALTY, " (a loss of gradients) is computed in some steps only")
PENALTY_SHORT_FIX = say("Compute the penalty in every step, or keep both graphs.")
PENALTY_FIX = say(
    "The loss takes in gradients on one side only, and the backward pass goes through these too "
    "(create_graph=True, or jax.grad of what has jax.grad in it). A penalty in every n-th step "
    "makes two graphs, each of which compiles once. One does if it is computed in every step, "
    "times a number that is nearly zero where it is unwanted (not 0: that leaves it out)."
)


def find(case: Case) -> list[Finding]:
    """One side computes something more on the way, and hands the result on in its place."""
    return [_finding(found) for found in bypasses(case)]


def _finding(found: Bypass) -> Finding:
    title = _title(found, found.lines)
    index = device_index(found)
    if index:
        finding = bypass_finding(found, EXTRA_SUBGRAPH, title, fix=index.fix)
        return replace(finding, short=index.short, short_fix=index.fix)
    others = found.other_values
    if not 0 < len(others) <= MAX_SHOWN:
        told = _of_gradients(found) or _of_term(found, title) or _of_block(found, title)
        return told or _plain(found, title)
    taken = join(starmap(partial(_taken, found), others.items()), MAX_SHOWN, "; ")
    finding = bypass_finding(found, EXTRA_SUBGRAPH, say(title, ": ", taken), stands=taken)
    return replace(finding, short=say(OTHER_OPERAND.short), short_fix=say(OTHER_OPERAND.short_fix))


def _plain(found: Bypass, title: Message) -> Finding:
    """The finding of a piece of which only its operations tell, or that all of it is derivatives.

    Derivatives have no line, or that of their forward operation: torch's engine calls no Python.
    """
    finding = bypass_finding(found, EXTRA_SUBGRAPH, title)
    module = found.more.module
    own = [i for i in found.piece if module.opcodes[i] not in IDLE and module.operands[i]]
    lines = [line_of(module, i) for i in own]
    if knows_lines(module) and own and all(line is None or line.backward_of for line in lines):
        return replace(
            finding, short=BACKWARD_SHORT, fix=BACKWARD_FIX, short_fix=BACKWARD_SHORT_FIX
        )
    return replace(finding, short=in_some_steps(module, found.piece, found.less.module))


def _of_gradients(found: Bypass) -> Finding | None:
    """The finding, if the piece computes derivatives of gradients: a loss is computed of these."""
    module = found.more.module
    loss = gradient_loss(module, found.piece)
    if loss is None:
        return None
    taken = (
        () if loss.gradient is None else found.piece.intersection(uses_of(module, loss.gradient))
    )
    first = tuple(line for line in where(module, taken) if is_forward(line))
    lines = (*first, *(line for line in found.lines if line not in first))
    of = say() if loss.of is None else say(" with respect to ", _named(found.more, loss.of))
    told = say(": a loss of the gradient", of, ", as a gradient penalty is, and its derivatives")
    title = say(_title(found, lines), told)
    finding = bypass_finding(found, EXTRA_SUBGRAPH, title, fix=PENALTY_FIX, lines=lines)
    return replace(finding, short=PENALTY_SHORT, short_fix=PENALTY_SHORT_FIX)


def _title(found: Bypass, lines: tuple[SourceLine, ...]) -> Message:
    more, less = found.more.side, found.less.side
    return say(more, " computes ", found.words, " that ", less, " does not", at(lines))


def _named(view: SideView, value: int) -> Message:
    """An input by its name or number, another value by its name."""
    if is_input(view.module, value):
        return parameter_name(view, value)
    name = HloName(view.module.names[value], view.module.opcodes[value])
    return say(name, f" ({short_shape(view.module, value)})")


def _of_block(found: Bypass, title: Message) -> Finding | None:
    """The finding, if it is a part of the model whose weights the other side has for updates alone.

    So it is where gradients are zeros, and not None, for what did not run: momentum and weight
    decay go on.
    """
    module, partners = found.more.module, found.more.partners
    if HEAVY.isdisjoint(telling_opcodes(module, found.piece)):
        return None
    taken = {o for i in found.piece for o in module.operands[i] if partners[o] >= 0}
    weights = taken.intersection(updates(module))
    if not any(_is_for_updates(found.less.module, partners[o]) for o in weights):
        return None
    finding = bypass_finding(found, EXTRA_SUBGRAPH, title, fix=BLOCK_FIX)
    return replace(finding, short=say(SKIPPED_BLOCK.short), short_fix=BLOCK_SHORT_FIX)


def _is_for_updates(module: Module, tensor: int) -> bool:
    """Whether an optimizer, told by its lines, is all that uses a tensor."""
    users = set(module.users[tensor]) - {module.entry_computation.root}
    return bool(users) and all(line_of(module, i) and runs_in_optimizer(module, i) for i in users)


def _of_term(found: Bypass, title: Message) -> Finding | None:
    """The finding, if one line combines two values of both sides, and all else follows from that.

    What follows is the derivative: it stands behind, and has the line of what it is taken of.
    """
    module = found.more.module
    terms = {edge.value(found.more): value for edge, value in found.uses.items()}
    first = min((i for i in found.piece if module.opcodes[i] not in IDLE), default=0)
    words = _COMBINED.get(module.opcodes[first])
    others = [o for o in module.operands[first] if o != terms.get(first)]
    if words is None or len(found.lines) != 1 or len(others) != 1 or others[0] in found.piece:
        return None
    names = [HloName(module.names[i], module.opcodes[i]) for i in (terms[first], *others)]
    shape = short_shape(module, first)
    told = say(": ", names[0], f" ({shape}) {words.done} ", names[1], ", which both sides compute")
    finding = bypass_finding(found, EXTRA_SUBGRAPH, say(title, told))
    return replace(finding, short=words.short, short_fix=words.short_fix, fix=say(BRANCH_FIX))


def _taken(found: Bypass, edge: Edge, value: int) -> Message:
    """What an operation takes on both sides, by the names of the side that computes more."""
    module, own, user = found.more.module, edge.value(found.more), edge.user(found.more)
    return say(
        HloName(module.names[user], module.opcodes[user]),
        " takes ",
        HloName(module.names[own], module.opcodes[own]),
        f" ({short_shape(module, own)}) in ",
        found.more.side,
        " and ",
        HloName(module.names[value], module.opcodes[value]),
        ", which both sides compute, in ",
        found.less.side,
    )


RULE = Rule(
    name="extra-subgraph",
    kinds=(EXTRA_SUBGRAPH,),
    find=find,
    after=("call-option",),
)
