"""Outputs that come and go with the tensors that Python holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import holder_name, output_name, parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.gradients import adds_gradients, gradients_of
from xlagraph.facts.training.updates import updates
from xlagraph.message import Message, count, join, say
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

LIVE_TENSOR = Kind(
    id="live-tensor",
    title="A tensor is kept in some steps and not in others",
    section=Section.LIVE,
    meaning="Every tensor that Python still holds at torch_xla.sync(), and that has pending work, "
    "is an output of the graph, with all that only it needs. A metric that is kept every tenth "
    "step, a forgotten reference, a copy of the model: in these steps the graph has an output "
    "more.",
    before="""\
history = []
for step, (x, y) in enumerate(loader):
    out = model(x)
    if step % 3 == 2:
        history.append((out.argmax(1) == y).float().mean())
    update(loss_fn(out, y))
""",
    after="""\
history = []
for step, (x, y) in enumerate(loader):
    out = model(x)
    accuracy = (out.argmax(1) == y).float().mean()  # computed in every step
    update(loss_fn(out, y))
    if step % 3 == 2:
        history.append(accuracy.item())  # behind torch_xla.sync(): it is there already
""",
    evidence="The output, its line, what holds it (XLAGRAPH_HOLDERS=1), and whether it is a copy.",
    fix="If the tensor is logged, keep it every step, or detach it and move it to the host with "
    "xm.add_step_closure; if it is leaked, drop the reference (list, closure, attribute) before "
    "torch_xla.sync().",
    proof="The output is left out with what only it needs.",
    examples=(
        "log_every_k",
        "step_closure",
        "deepcopy_leak",
        "two_causes",
        "two_ranks",
        "one_gradient_fewer",
        "train_or_eval",
    ),
    family=Family.LIVE,
    may_grow=True,
    short="A tensor is kept in some steps only",
    short_fix="Keep it in every step, or drop it before the step ends.",
)
GRADIENT_SHORT = say("A gradient is given out in some graphs only")
GRADIENT_SHORT_FIX = say("Ask for the gradients of the same weights in every step.")
GRADIENT_FIX = say(
    "Ask for the gradients of the same weights in every step (requires_grad, argnums of jax.grad): "
    "a weight that is to stay as it is can have a learning rate of zero. Where the gradient is "
    "merely still alive, drop it before the step ends (zero_grad)."
)
FURTHER_SHORT = say("Gradients reach more weights in some steps")
FURTHER_SHORT_FIX = say("Detach and freeze (requires_grad) the same tensors in every step.")
FURTHER_FIX = say(
    "The backward pass goes on to these weights on one side only: cut it at the same values in "
    "every step (.detach(), torch.no_grad()), or freeze the same weights (requires_grad). A target "
    "network needs no gradients at all."
)
ADDED = say(
    "they are added to inputs that nothing else uses: the gradients of earlier steps, which were "
    "not zeroed"
)

RESULTS_FIX = say(
    "The traced function returns more in some calls: an argument in static_argnames, or what "
    "Python knows as it is traced, decides it, and each choice is a program of its own that "
    "compiles once. If there are few choices, as with metrics in every n-th step, nothing is "
    "wrong. To have one "
    "program, return the same results in every call, and use them where they are wanted."
)
RESULTS_SHORT_FIX = say("None if a static argument asks for it; or return it in every call.")
COPIED = Words(
    say(
        "The step keeps the new weights a second time (load_state_dict, copy_, deepcopy), as a "
        "target network does every so many steps: one graph more, which compiles once. If it is "
        "kept by mistake, drop the reference before torch_xla.sync(). To have one graph, copy "
        "between two steps, behind torch_xla.sync(), or in every step by torch.where(flag, new, "
        "old), flag being a tensor."
    ),
    say("Weights are copied in some steps only, as into a target network"),
    say("Accept one graph more, or copy behind torch_xla.sync()."),
)

LOGGED = ", as for a log"
LOGGED_WORDS = Words(
    say(
        "What is only wanted now and then, as for a log, is a graph of its own in those steps: "
        "compute it in every step and read it rarely, or behind torch_xla.sync(), in a graph that "
        "has nothing else. Two graphs that take turns compile once each."
    ),
    say("A number is computed in some steps only", LOGGED),
    say("Compute it in every step, and print it rarely."),
)
WAITED_WORDS = Words(
    say(
        "What is computed behind torch_xla.sync(), of what the step has left, waits for the next "
        "graph and makes it another one: compute it before torch_xla.sync() in every step, or call "
        "torch_xla.sync() behind it too, so that it has a graph of its own."
    ),
    say("A number waited behind the sync of the step before", LOGGED),
    say("Compute it before torch_xla.sync(), or sync behind it too."),
)
BEGUN = ") are set to numbers before some steps end"
BEGUN_FIX = say(
    "torch_xla.sync() takes all that is pending. What is set between a step and the next sync, as "
    "an accumulator that a validation begins with (zero_(), torch.zeros on the device), becomes "
    "part of that step's graph: call torch_xla.sync() behind the step, or once more behind what is "
    "set."
)
BEGUN_SHORT_FIX = say("Call torch_xla.sync() behind the step, before tensors are set.")
MAX_SHAPES = 3
"""Shapes that are told."""
OWN_WORK = 8
"""So many instructions serve a number that is computed for itself."""


def find(case: Case) -> list[Finding]:
    """Outputs that one side has and the other has not: a logged, leaked or missing tensor.

    A root that is no tuple is no list of live tensors.
    """
    return [
        _finding(more, less, places)
        for less, more in case.both_ways
        if more.module.gives_tuple
        for places in _by_creation(more, case.unpaired_outputs(more))
    ]


def _by_creation(view: SideView, positions: Sequence[int]) -> list[list[int]]:
    """Groups outputs by the line that made them, optimizer state apart: one line, one cause."""
    groups: dict[tuple[bool, str], list[int]] = defaultdict(list)
    for k in positions:
        made = where(view.module, [view.module.outputs[k]])
        line = made[0] if made else view.context.created.get(k)
        is_state = _is_state(view, k)
        groups[is_state, "" if is_state or not line else str(line)].append(k)
    return [groups[key] for key in sorted(groups)]


def _is_state(view: SideView, position: int) -> bool:
    tensor = view.context.outputs.get(position)
    return bool(tensor and tensor.is_optimizer_state)


def _finding(more: SideView, less: SideView, places: Sequence[int]) -> Finding:
    module, side = more.module, more.side
    claimed = frozenset(exclusive_slice(module, places))
    values = [module.outputs[k] for k in places]
    names = join(output_name(more, k) for k in places)
    lines = _lines(more, places, claimed)
    is_state = all(_is_state(more, k) for k in places)
    is_one = len(places) == 1
    given = (side, f" gives back {count(len(places), 'tensor')}")
    cited_a, cited_b = more.ab(tuple(values), ())
    claimed_a, claimed_b = more.ab(claimed, frozenset[int]())
    dropped_a, dropped_b = more.ab(frozenset(places), frozenset[int]())
    gradients = {} if more.context.outputs else gradients_of(module, values)
    words = _gradient_words(module, gradients, claimed) if gradients else Words()
    sources = _sources(module, places)
    words = COPIED if _are_copied_weights(module, places, sources) else words
    if not (gradients or sources) and _are_logged(module, values, claimed):
        words = WAITED_WORDS if _has_waited(more, claimed) else LOGGED_WORDS
    if all(more.matched.closed[value] for value in values):
        words = _words_of_begun(module, values)
    if is_jitted(module) and not gradients:
        words = _words_of_results(more, less, places)
    alone = f", which adds {count(len(claimed), 'instruction')} that nothing else needs"
    return Finding(
        kind=OPTIMIZER_STATE if is_state else LIVE_TENSOR,
        title=say(
            _gradients(more, less, gradients)
            if gradients
            else say("optimizer state came into being: ", *given, " that ", less.side, " does not")
            if is_state
            else say(*given, " more than ", less.side),
            ": ",
            names,
            say(", made", at(lines)) if lines else say(),
            _held(more, places),
        ),
        evidence=(
            Evidence(
                say(
                    "Python still holds ",
                    names,
                    " as the step ends",
                    alone if claimed else "",
                    _copied(more, sources),
                ),
                cited_a,
                cited_b,
                lines,
            ),
            *([Evidence(ADDED)] if gradients and adds_gradients(module, values) else []),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        proof=say(
            f"{count(len(places), 'output')} of ",
            side,
            f" {'was' if is_one else 'were'} left out with what only "
            f"{'it needs' if is_one else 'they need'}",
        ),
        a=claimed_a,
        b=claimed_b,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        expected=is_state and not more.is_a,
    )


def _words_of_begun(module: Module, values: Sequence[int]) -> Words:
    """What is said of tensors that are made from numbers alone."""
    shapes = join((short_shape(module, i) for i in values), MAX_SHAPES)
    short = say("Tensors (", shapes, BEGUN)
    return Words(BEGUN_FIX, short, BEGUN_SHORT_FIX)


def _words_of_results(more: SideView, less: SideView, places: Sequence[int]) -> Words:
    """What is said of a function that JAX traces: it keeps nothing alive, it gives results back."""
    shapes = join(short_shape(more.module, more.module.outputs[k]) for k in places)
    given = f" gives back {count(len(places), 'result')} more than "
    return Words(RESULTS_FIX, say(more.side, given, less.side, ": ", shapes), RESULTS_SHORT_FIX)


def _gradients(more: SideView, less: SideView, gradients: Mapping[int, int | None]) -> Message:
    weights = [weight for weight in gradients.values() if weight is not None]
    return say(
        more.side,
        f" gives out {count(len(gradients), 'gradient')} that ",
        less.side,
        " does not, of " if len(weights) == len(gradients) else " does not, among them of ",
        join(parameter_name(more, p) for p in weights),
    )


def _gradient_words(module: Module, gradients: Collection[int], claimed: frozenset[int]) -> Words:
    """What is said of gradients, by whether the other side has no use for them at all.

    In torch they are asked for by what they flow through, in JAX by name.
    """
    if claimed.isdisjoint(gradients) or is_jitted(module):
        return Words(GRADIENT_FIX, GRADIENT_SHORT, GRADIENT_SHORT_FIX)
    return Words(FURTHER_FIX, FURTHER_SHORT, FURTHER_SHORT_FIX)


def _lines(
    view: SideView, places: Sequence[int], claimed: frozenset[int]
) -> tuple[SourceLine, ...]:
    module, created = view.module, view.context.created
    values = [module.outputs[k] for k in places]
    return (
        where(module, claimed | set(values))
        or tuple(created[k] for k in places if k in created)[:3]
        or where(module, [u for value in values for u in module.users[value]])
    )


def _held(view: SideView, places: Sequence[int]) -> Message:
    """What keeps the tensors alive in Python, where the capture looked."""
    holders = view.context.holders
    held = sorted({one for k in places for one in holders.get(k, ())}, key=astuple)
    return say(", kept alive by ", join(map(holder_name, held))) if held else say()


def _copied(view: SideView, sources: Sequence[int]) -> Message:
    """Says which other outputs have the same value: the tensors are copies of these."""
    tensors = view.context.outputs
    named = join(tensors.get(k) or f"output {k}" for k in sources)
    return say("; same value as ", named, ": a copy") if named else say()


def _sources(module: Module, places: Sequence[int]) -> list[int]:
    """The other outputs with the value of one of these."""
    values = module.outputs
    first = {value: k for k, value in reversed(list(enumerate(values))) if k not in places}
    return [first[values[k]] for k in places if values[k] in first]


def _has_waited(more: SideView, claimed: Collection[int]) -> bool:
    """Whether it is made of inputs that this side alone takes in, and of nothing of this step."""
    module = more.module
    entry = module.entry_computation
    own = {i for i in claimed if entry.start <= i < entry.stop}
    taken = {o for i in own for o in module.operands[i]} - own
    arrays = [i for i in own | taken if not module.shapes[i].endswith("[]")]
    inputs = [i for i in arrays if is_input(module, i) and more.partners[i] < 0]
    return bool(inputs) and not any(i in taken and not more.matched.closed[i] for i in arrays)


def _are_logged(module: Module, values: Sequence[int], claimed: frozenset[int]) -> bool:
    """Whether outputs are numbers that much is computed for, which nothing else needs."""
    are_numbers = all(module.shapes[i].partition("{")[0].endswith("[]") for i in values)
    return are_numbers and len(claimed) >= OWN_WORK


def _are_copied_weights(module: Module, places: Sequence[int], sources: Sequence[int]) -> bool:
    """Whether several outputs are each the new value of a tensor that is updated, once more."""
    if not len(sources) == len(places) > 1:
        return False
    return {k for positions in updates(module).values() for k in positions}.issuperset(sources)


RULE = Rule(
    name="live-tensors",
    kinds=(LIVE_TENSOR,),
    find=find,
    after=("shared-scalar",),
)
