"""A gradient that is alive already, to which one side adds the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, backward_call, where
from xlagraph.facts.training.added_gradients import accumulated
from xlagraph.facts.training.updates import at_zero
from xlagraph.facts.values.turned import without_turns
from xlagraph.message import Code, count, join, say
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

ACCUMULATED_GRADIENT = Kind(
    id="accumulated-gradient",
    title="A gradient is added to one that is alive",
    section=Section.LIVE,
    meaning="Where a parameter has a gradient already, backward adds the new one to it, and the "
    "old one is an input of the graph. A step after zero_grad() is another graph: with gradient "
    "accumulation the first micro-batch differs from the others, and a parameter that no "
    "optimizer zeroes differs from the second step on.",
    before="""\
trained = [p for n, p in model.named_parameters() if n != "0.weight"]
optimizer = torch.optim.SGD(trained, lr=0.05)
for x, y in loader:
    loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()  # the gradient of 0.weight stays
    torch_xla.sync()
""",
    after="""\
trained = [p for n, p in model.named_parameters() if n != "0.weight"]
optimizer = torch.optim.SGD(trained, lr=0.05)
for x, y in loader:
    loss_fn(model(x), y).backward()
    optimizer.step()
    model.zero_grad()
    torch_xla.sync()
""",
    evidence="The gradients that come in, and what is added to them.",
    fix="If gradients are accumulated on purpose, keep the number of micro-batches between two "
    "steps the same, so that the same two graphs come back; or let the first one add to zeros, by "
    "zero_grad(set_to_none=False) before torch_xla.sync(), which makes it the same graph. If not, "
    "the gradient is never zeroed: call model.zero_grad(), or give the parameter to the optimizer, "
    "or freeze it.",
    proof="The gradients that come in are taken to be zero.",
    examples=("gradient_never_zeroed",),
    consequences=("output-order",),
    short="A gradient is added to an old one",
    short_fix="Zero gradients, or accumulate equally many batches in every step.",
)
FIRST_FIX = say(Code("zero_grad(set_to_none=False)"), ", so that the first batch adds as well.")


def find(case: Case) -> list[Finding]:
    """Inputs that one side alone has and only adds to values that the other has too."""
    return [finding for less, more in case.both_ways for finding in _findings(less, more)]


def _findings(less: SideView, more: SideView) -> list[Finding]:
    module = more.module
    parameters = module.entry_computation.parameters
    lone = set(more.open_lone())
    unnamed = accumulated(less, more)
    inputs = [p for p in parameters if p in lone and (p in unnamed or _is_gradient(more, p))]
    zeros, left = at_zero(module, inputs)
    left = without_turns(module, left)
    taken = [p for p in inputs if p in zeros]
    if not taken:
        return []
    tensors = [more.input_tensor(p) for p in taken]
    names = join(t or short_shape(module, p) for t, p in zip(tensors, taken, strict=True))
    call = backward_call(module)  # what clips or logs gradients only takes the sums
    lines = (call,) if call else where(module, sorted(left))
    cited_a, cited_b = more.ab((*taken, *sorted(left)), ())
    claimed_a, claimed_b = more.ab(frozenset(zeros | left.keys()), frozenset[int]())

    old_or_none = say(
        more.side, " adds to the gradients of an earlier batch, ", less.side, " has none of these"
    )
    first = Words(short=old_or_none, short_fix=FIRST_FIX) if unnamed else Words()

    def undo(edit: Editors) -> None:
        edit[more.side].replace_uses(left)

    return [
        Finding(
            kind=ACCUMULATED_GRADIENT,
            title=say(
                more.side,
                " takes in ",
                names,
                " and adds to ",
                "it" if len(taken) == 1 else "them",
                at(lines),
            ),
            evidence=(
                Evidence(
                    say(
                        f"{count(len(taken), 'input')} of ",
                        more.side,
                        " alone, each added to a value that ",
                        less.side,
                        " gives out or uses as it is",
                    ),
                    cited_a,
                    cited_b,
                    lines,
                ),
            ),
            short=first.short,
            short_fix=first.short_fix,
            fix=say(ACCUMULATED_GRADIENT.fix),
            proof=say(f"{count(len(taken), 'gradient')} that came in taken to be zero"),
            a=claimed_a,
            b=claimed_b,
            undo=undo,
        )
    ]


def _is_gradient(view: SideView, parameter: int) -> bool:
    tensor = view.input_tensor(parameter)
    return tensor is not None and tensor.role is Role.GRADIENT


RULE = Rule(
    name="accumulated-gradient",
    kinds=(ACCUMULATED_GRADIENT,),
    find=find,
    after=("tied-weights",),
    before=("optimizer-state",),
)
