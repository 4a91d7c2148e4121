"""Tensors that both sides read and only one updates in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.live import mark
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.diff.header import given_away
from xlagraph.facts.training.blends import is_blend
from xlagraph.facts.training.gradients import PRODUCTS
from xlagraph.facts.training.state import parameter_number, state_pairs
from xlagraph.facts.training.updates import formula, past_barriers, renewed, updates
from xlagraph.message import Code, count, join, say
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

OWN_GRAPH = Kind(
    id="own-graph",
    title="A graph of its own: it updates nothing and comes from another line",
    section=Section.LIVE,
    meaning="An evaluation, or whatever else is no training step, has a graph of its own. It is "
    "compared with the nearest earlier one, a training step, and is no variant of it: nothing is "
    "wrong with its first compile.",
    before="""\
for x, y in loader:
    update(loss_fn(model(x), y))
with torch.no_grad():
    accuracy = (model(x).argmax(1) == y).float().mean()
    torch_xla.sync()  # compiles a graph of its own, once
""",
    after="",
    evidence="The line it comes from, and what the other graph updates.",
    fix="An evaluation, or whatever else is no training step, has a graph of its own: nothing is "
    "wrong with its first one. To compile it before training, run it once then.",
    proof="The updates are left out with what only they need.",
    examples=("evaluation",),
    short="Another part of the program has its own graph",
    short_fix="None needed; run it once before training to compile it early.",
)
SKIPPED_UPDATE = Kind(
    id="skipped-update",
    title="The update is left out",
    section=Section.LIVE,
    meaning="A step computes gradients and updates nothing: a loss scaler found an overflow and "
    "skipped the optimizer's step, a guard against NaN did, or gradients are accumulated by hand. "
    "Nearly half of the graph is missing then, so it is another one.",
    before="""\
for step, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y)
    loss.backward()
    overflow = step == 4  # what a scaler has read from the device
    if not overflow:
        optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    after="""\
good = torch.ones(1).to("xla")
torch_xla.sync()
for x, y in loader:
    loss = loss_fn(model(x), y)
    loss.backward()
    for p in model.parameters():  # an overflow makes the gradient zero, on the device
        p.grad = torch.where(torch.isfinite(p.grad) & (good > 0), p.grad, 0)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    evidence="The tensors that one side updates, and that the other updates none.",
    fix="Update in every step, and let the device decide whether it changes anything: "
    "torch.where(isfinite(grad), grad, 0), or the optimizers of torch_xla.amp.syncfree with its "
    "GradScaler, which take found_inf as a tensor. A step that is meant to update nothing compiles "
    "once, for its own graph.",
    proof="The new values are left out with what only they need.",
    examples=("scaler_skips",),
    consequences=("newly-updated", "optimizer-state", "live-tensor"),
    short_fix="Update in every step, and let the device decide by torch.where.",
)
LAYER_FIX = say(
    NEWLY_UPDATED.fix,
    " A layer that is to be unfrozen later can get a learning rate of (nearly) zero until then.",
)
TRAINED_BY = "requires_grad"
"""What layers are set to that are trained."""
TRAINED = Words(
    say(
        "Train the same layers in every step: requires_grad is True for them on one side only (or "
        "jax.grad asks for their gradients there, or the optimizer has them), so set it before the "
        "first step and leave it. A layer that is to be unfrozen later can be trained from the "
        "first step with a learning rate of (nearly) zero until then."
    ),
    say("Parameters are trained in some steps only"),
    say("Freeze the same layers (requires_grad) in every step."),
)
AVERAGE = "A target network or average moves"
BLENDED = Words(
    say(
        "Weights are blended into a second set of them (a target network, an average, EMA): do "
        "that in every step, by a tensor of one element that is 0 where nothing is to change: ",
        Code("p.mul_(1 - w).add_(w * q)"),
        ". Or call torch_xla.sync() before it, so that it has a graph of its own, compiled once.",
    ),
    say(AVERAGE, " in some steps only"),
    say("Blend in every step, or keep both graphs: one compile each."),
)
FORMS = frozenset({"bitcast", "reshape", "transpose"})
GRADIENTS = PRODUCTS | {"scatter"}
"""What an update needs alone only if it is by a gradient."""


class Updates(NamedTuple):
    """What one side updates and the other does not."""

    own: list[tuple[int, int]]
    """Parameters with the positions of outputs that this side alone has."""
    handed_on: list[tuple[int, int]]
    """The same where the other side gives the parameter back as it came."""
    beside: list[int]
    """Outputs of this side alone that such an update computes on its way: momentum, gradients."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All that are updated, as parameters and output positions."""
        return self.own + self.handed_on


def find(case: Case) -> list[Finding]:
    """Tensors that both sides read and only one updates in place: a layer was unfrozen."""
    found = []
    for less, more in case.both_ways:
        own, handed_on = _updated(case, more, less), _handed_on(case, more, less)
        is_training = _updates_any(less) and _by_gradients(case, more, own)
        if not (_says_what_is_new(more) or is_training):
            own = _blends(case, more, own)  # others: a difference that is kept, perhaps
        steps = handed_on or (own if not more.context.outputs else [])
        beside = _beside(case, more, steps) if steps else []
        if own or handed_on:
            found.append(_finding(case, more, less, Updates(own, handed_on, beside)))
    return found


def _handed_on(case: Case, more: SideView, less: SideView) -> list[tuple[int, int]]:
    """Parameters that one side updates, and of which the other gives back what came in."""
    new, given = renewed(more.module), less.module.outputs
    replaced = [more.ab(x, y) for x, y in case.replaced_outputs()]
    kept = [(less.partners[given[j]], k) for k, j in replaced]
    return [(p, k) for p, k in kept if k in new.get(p, ())]


def _blends(case: Case, more: SideView, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those whose new value blends in a new weight, which both sides give out."""
    module, weights = more.module, _weights(case, more)
    return [(p, k) for p, k in pairs if is_blend(module, p, module.outputs[k], weights)]


def _weights(case: Case, more: SideView) -> set[int]:
    """The new values of tensors that both sides give out."""
    slots = (more.own(slot) for slot in case.diff.outputs if more.theirs(slot) is not None)
    both = {k for k in slots if k is not None}
    new = renewed(more.module).values()
    return {more.module.outputs[k] for positions in new for k in positions if k in both}


def _in_any_form(module: Module, i: int) -> Sequence[int]:
    """What a value is computed from by the same elements, in whatever shape they come."""
    return module.operands[i] if module.opcodes[i] in FORMS else past_barriers(module, i)


def _says_what_is_new(view: SideView) -> bool:
    """Whether it is known which outputs replace inputs: by name, or by buffers given away."""
    return bool(view.context.outputs or given_away(view.module))


def _by_gradients(case: Case, more: SideView, own: Sequence[tuple[int, int]]) -> bool:
    """Whether these outputs need what a gradient is computed by, and nothing else needs it."""
    module, below = more.module, bytearray(len(more.module))
    lone = {*case.unpaired_outputs(more), *more.dropped}
    alone = exclusive_slice(module, {*lone, *(k for _, k in own)})
    mark(module, below, [module.outputs[k] for _, k in own])
    return any(below[i] and module.opcodes[i] in GRADIENTS for i in alone)


def _is_step(module: Module, parameter: int, value: int) -> bool:
    """Whether a value is a parameter plus or minus something, as an optimizer moves it.

    The parameter may be scaled first: decoupled weight decay.
    """
    if module.opcodes[value] not in ("add", "subtract"):
        return False
    moved = module.operands[value][0]
    return parameter == moved or (
        module.opcodes[moved] == "multiply" and parameter in module.operands[moved]
    )


def _beside(case: Case, more: SideView, steps: Sequence[tuple[int, int]]) -> list[int]:
    """Outputs that the other side has not and that only these updates compute on their way."""
    module, positions = more.module, {k for _, k in steps}
    lone = [k for k in case.unpaired_outputs(more) if k not in positions]
    alone = exclusive_slice(module, {*lone, *positions, *more.dropped})
    formulas = [formula(module, module.outputs[k], _in_any_form) for k in positions]
    on_the_way = alone.intersection(set[int]().union(*formulas))
    return [k for k in lone if module.outputs[k] in on_the_way]


def _updated(case: Case, more: SideView, less: SideView) -> list[tuple[int, int]]:
    """Parameters of one side with output positions of its own that replace them."""
    module, context = more.module, more.context
    parameters = module.entry_computation.parameters
    own = (more.own(s) for s in case.diff.parameters if more.theirs(s) is not None)
    shared = [parameters[k] for k in own if k is not None]
    away, other_away = given_away(module), given_away(less.module)
    shared = [
        p
        for p in shared
        if is_input(module, p) and parameter_number(less.module, more.partners[p]) not in other_away
    ]
    outputs = case.unpaired_outputs(more)
    values, weights = module.outputs, _weights(case, more)
    kept = {values[k] for k in range(len(values)) if k not in outputs}

    def is_updated(parameter: int, output: int) -> bool:
        """Whether the output replaces the parameter: by name, by its buffer, or as it is moved."""
        number = parameter_number(module, parameter)
        tensor = context.outputs.get(output)
        if tensor and number in context.parameters:
            return tensor == context.parameters[number]
        if _says_what_is_new(more):
            return number in away
        value = values[output]
        return _is_step(module, parameter, value) or is_blend(module, parameter, value, weights)

    return state_pairs(module, shared, [k for k in outputs if values[k] not in kept], is_updated)


def _finding(case: Case, more: SideView, less: SideView, found: Updates) -> Finding:
    module, side = more.module, more.side
    lines = where(module, [module.outputs[k] for _, k in found.pairs])
    listed = join(parameter_name(more, p) for p, _ in found.pairs)
    dropped = frozenset((*(k for _, k in found.own), *found.beside))
    claimed = frozenset(exclusive_slice(module, {*dropped, *(k for _, k in found.handed_on)}))
    claimed_a, claimed_b = more.ab(claimed, frozenset[int]())
    dropped_a, dropped_b = more.ab(dropped, frozenset[int]())
    cited_a, cited_b = more.ab(tuple(p for p, _ in found.pairs), ())
    site = _own_site(less, more)
    number = count(len(found.pairs), "tensor")
    is_skipped = not site and not _updates_any(less)
    is_layer = not (site or is_skipped)
    words = _words(case, more, found, claimed) if is_layer else Words()
    verb = " blends weights into " if words is BLENDED else " updates "
    title = say(
        side, verb, number, " that ", less.side, " only reads (", listed, ")", at(lines),
        _also(found),
    )  # fmt: skip
    if is_skipped:
        title = say(
            less.side, f" updates none of the {number} that ", side, " updates (", listed,
            "): the update", at(lines), " is left out",
        )  # fmt: skip
    old = {module.outputs[k]: p for p, k in found.handed_on}

    def undo(edit: Editors) -> None:
        edit[side].replace_outputs(old)

    return Finding(
        kind=OWN_GRAPH if site else SKIPPED_UPDATE if is_skipped else NEWLY_UPDATED,
        title=say(
            less.side,
            " is a graph of its own, from ",
            site,
            f": it updates none of the {number} that ",
            side,
            " updates (",
            listed,
            ")",
        )
        if site
        else title,
        evidence=(
            Evidence(
                say(
                    listed,
                    ": read by both, an output of " if found.own else ": given back by both, by ",
                    side,
                    " alone" if found.own else " alone with a new value",
                    f"; {count(len(claimed), 'instruction')} serve nothing else",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        option=TRAINED_BY if words is TRAINED else "",
        proof=_proof(more, found),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
    )


def _words(case: Case, more: SideView, found: Updates, claimed: frozenset[int]) -> Words:
    """What is said of weights that are blended, of layers that are trained, and of others."""
    if len(_blends(case, more, found.pairs)) == len(found.pairs):
        return BLENDED
    is_trained = any(more.module.opcodes[i] in GRADIENTS for i in claimed)
    is_trained = is_trained or _by_gradients(case, more, found.own)
    return TRAINED if is_trained else Words(LAYER_FIX)


def _also(found: Updates) -> Message:
    number = count(len(found.beside), "more tensor")
    text = f", and gives out {number} of theirs (momentum, gradients)"
    return say(text if found.beside else "")


def _proof(more: SideView, found: Updates) -> Message:
    """What undoing does."""
    gone = count(len(found.own) + len(found.beside), "output")
    left_out = say(f"{gone} of ", more.side, " left out with what only they need")
    if not found.handed_on:
        return left_out
    values = count(len(found.handed_on), "new value")
    old = say(f"{values} of ", more.side, " taken to be what came in")
    return say(old, "; ", left_out) if found.own or found.beside else old


def _own_site(view: SideView, other: SideView) -> SourceLine | None:
    """Where a side was synced that updates no tensor, if the other one was not."""
    site, other_site = view.context.call_site, other.context.call_site
    if not other_site or other_site == site:
        return None
    return None if _updates_any(view) else site


def _updates_any(view: SideView) -> bool:
    """Whether a side updates a tensor; counters do not count."""
    return any(not view.module.shapes[p].endswith("[]") for p in updates(view.module))


RULE = Rule(
    name="newly-updated",
    kinds=(OWN_GRAPH, SKIPPED_UPDATE),
    find=find,
    after=("optimizer-state",),
)
