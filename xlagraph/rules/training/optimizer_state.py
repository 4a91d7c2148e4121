"""Optimizer state that comes into being."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, called_at, is_forward, line_of, where
from xlagraph.diff.header import given_away
from xlagraph.facts.pieces.pieces import connected
from xlagraph.facts.training.blends import blends_old
from xlagraph.facts.training.gradients import adds_gradients, is_multiplied, uses_of
from xlagraph.facts.training.optimizers import is_optimizer_state, runs_in_optimizer
from xlagraph.facts.training.state import parameter_number, state_pairs
from xlagraph.facts.training.updates import at_zero, formula, made_anew, new_values, updates
from xlagraph.facts.values.scalars import is_one
from xlagraph.message import count, join, say

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

OPTIMIZER_STATE = Kind(
    id="optimizer-state",
    title="Optimizer state came into being",
    section=Section.LIVE,
    meaning="An optimizer makes its buffers (momentum, averages of squares) in its first step. The "
    "graph of that step makes them, all later ones take them in and give them back. One more "
    "compile in the second step is a normal part of warming up; state that appears later is not: "
    "momentum switched on late, parameters that get their first gradient late.",
    before="""\
for step, (x, y) in enumerate(loader):
    if step == 5:
        for group in optimizer.param_groups:
            group["momentum"] = 0.9
    update(loss_fn(model(x), y))
""",
    after="""\
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for x, y in loader:
    update(loss_fn(model(x), y))
""",
    evidence="The state tensors by name, or by shape where the capture does not know them.",
    fix="Expected once, in the first optimizer step. To save the extra compile, create the state "
    "before the loop (a first step with zero gradients).",
    proof="Zeros stand for the state; its new values are left out where the other side has none.",
    examples=("momentum_first_step", "momentum_late", "adam_first_step"),
    short_fix="Create the state before the loop: a step with zero gradients.",
)
NEWLY_UPDATED = Kind(
    id="newly-updated",
    title="Tensors are updated that the other side only reads",
    section=Section.LIVE,
    meaning="A layer is unfrozen, an average is updated every k steps, a statistic is changed in "
    "place in some steps only: the graph has more outputs, and all that leads to them.",
    before="""\
model[0].requires_grad_(False)
for step, (x, y) in enumerate(loader):
    if step == 4:
        model[0].requires_grad_(True)
    update(loss_fn(model(x), y))
""",
    after="""\
optimizer = torch.optim.SGD(
    [{"params": model[0].parameters(), "lr": 1e-30}, {"params": model[2].parameters()}],
    lr=0.05,
)
for step, (x, y) in enumerate(loader):
    if step == 4:
        optimizer.param_groups[0]["lr"] = 0.04
    update(loss_fn(model(x), y))
""",
    evidence="The parameters, and the outputs that replace them.",
    fix="Update the same tensors in every step, or update the others between two calls "
    "of torch_xla.sync(), so that the training graph stays the same.",
    proof="The new values are left out with what only they need.",
    examples=(
        "unfreeze_layer",
        "freeze_one_of_many",
        "ema_every_k",
        "checkpoint_toggle",
        "layer_frozen",
        "one_matrix_frozen",
    ),
    short="Tensors are updated in some steps only",
    may_be_meant=True,
    short_fix="Update the same tensors in every step.",
)

SKIPPED_BLOCK = Kind(
    id="skipped-block",
    title="Blocks of the model are left out in some steps",
    section=Section.RUN,
    meaning="LayerDrop, stochastic depth, an expert or a branch that Python picks: a random number "
    "or a condition on the host decides which blocks of the model run, so each choice is a graph "
    "of its own, and of n blocks there are up to 2^n. The optimizer's state, the gradients that "
    "clipping joins and the step counts that it divides by differ as a consequence.",
    before="""\
blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)]).to("xla")
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.05)
left_out = (2, 6), (4, 5)  # what a random number decides
for step, (x, y) in enumerate(loader):
    for block, steps in zip(blocks, left_out):
        if step not in steps:
            x = x + torch.relu(block(x))
    update(loss_fn(x, y))
""",
    after="""\
blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)]).to("xla")
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.05)
left_out = (2, 6), (4, 5)
for step, (x, y) in enumerate(loader):
    keep = torch.tensor([float(step not in steps) for steps in left_out]).to("xla")
    for block, kept in zip(blocks, keep.unbind()):
        x = x + kept * torch.relu(block(x))
    update(loss_fn(x, y))
""",
    evidence="The parameters that each graph takes in and updates, by name; of two modules without "
    "names the weights, and what hangs together with them.",
    fix="Run every block in every step, and multiply its branch by 0 or 1, drawn on the device "
    "(torch.rand on the device, then a comparison) or taken in as a tensor. A mean over what there "
    "is needs clamp(min=1) where it divides by a count, for 0 times NaN is NaN. In transformers "
    "set layerdrop to 0 and use dropout instead; in timm leave drop_path on the device as it is.",
    proof="Of two modules the block is bypassed, without its updates. Over a run nothing is "
    "undone: this is read off its records.",
    examples=("layer_drop",),
    consequences=(
        "newly-updated",
        "optimizer-state",
        "live-tensor",
        "shared-scalar",
        "python-size",
        "added-input",
        "clipping",
        "extra-subgraph",
        "optimizer-option",
        "output-order",
        "convolution-option",
        "reordered-operands",
    ),
    entails=("optimizer-state", "shared-scalar"),
    short="Some steps leave blocks of the model out",
    short_fix="Run every block; multiply by 0 or 1, drawn on the device.",
)

BLOCK_SHORT = say("A part of the model is trained in some steps only")
BLOCK_SHORT_FIX = say("Run every part; multiply by 0 or 1, drawn on the device.")
BLOCK_FIX = say(
    "Python leaves out a part of the model with its weights (LayerDrop, stochastic depth, an "
    "expert): run every part in every step, and multiply its result by 0 or 1, drawn on the device "
    "or taken in as a tensor. A part that comes once and stays (an adapter, a head) costs one "
    "compile."
)

OLD_BLEND = Words(
    say(
        "Averages (EMA, a target network) take the weights as the step before left them: they are "
        "moved behind the barrier (torch_xla.sync(), xm.optimizer_step(..., barrier=True)) and "
        "wait for the next graph, which the first step's has not; or in some steps only, before "
        "their update. Move them between the optimizer's step and the barrier, in every step."
    ),
    say("Averages of weights are moved in some steps only, by the weights before this update"),
    say("Move them behind step() and before the barrier, in every step."),
)


def find(case: Case) -> list[Finding]:
    """State tensors that one side takes in and gives back and the other only gives, or has not.

    State that is no optimizer's is an update that one side leaves out. Only its own new values
    are set aside; what is computed with it is compared with zeros in its place.
    """
    found: list[tuple[SideView, SideView, list[tuple[int, int]]]] = []
    for less, more in case.both_ways:
        anew = {made.parameter for made in made_anew(case, less, more)}
        parameters = more.module.entry_computation.parameters
        own = (more.own(slot) for slot in case.diff.parameters if more.theirs(slot) is None)
        inputs = [parameters[k] for k in own if k is not None]
        inputs = [p for p in inputs if is_input(more.module, p) and p not in anew]
        outputs = case.unpaired_outputs(more, replaced=True)
        state = state_pairs(more.module, inputs, outputs)
        if state and not _are_gradients(case, more, state):
            found.append((more, less, state))
    if len(found) == 2 and _may_be_the_same(*found):
        return []
    findings = [_finding(case, more, less, state) for more, less, state in found]
    return [finding for finding in findings if finding]


def _are_gradients(case: Case, more: SideView, state: Sequence[tuple[int, int]]) -> bool:
    """Whether these are gradients that backward adds up, and that one side alone computes."""
    given = {k for _, k in state}
    is_named = any(more.input_tensor(p) for p, _ in state)
    if is_named or not given.issubset(case.unpaired_outputs(more)):
        return False
    return adds_gradients(more.module, [more.module.outputs[k] for k in given])


def _may_be_the_same(
    one: tuple[SideView, SideView, list[tuple[int, int]]],
    other: tuple[SideView, SideView, list[tuple[int, int]]],
) -> bool:
    """Whether both sides have as many, none with a name: tensors of another size, say."""
    named = any(more.input_tensor(p) for more, _, state in (one, other) for p, _ in state)
    return not named and len(one[2]) == len(other[2])


def _finding(
    case: Case, more: SideView, less: SideView, state: Sequence[tuple[int, int]]
) -> Finding | None:
    """`more` has the state, pairs of a parameter and an output position."""
    if not _is_state(case, more, less, state):
        state = _updated(case, more, state)
        if not state:
            return None
    module, side = more.module, more.side
    inputs = [p for p, _ in state]
    is_state = _is_state(case, more, less, state)
    dropped = frozenset(_lone(more, less, new_values(module, inputs)))
    zeros, left = at_zero(module, inputs)
    claimed = frozenset(exclusive_slice(module, dropped) | zeros | left.keys())
    tensors = [more.input_tensor(p) for p in inputs]
    lines = _lines(module, state)
    if not is_state:
        lines = where(module, {u for p in inputs for u in module.users[p]}) or lines
    listed = join(t or short_shape(module, p) for t, p in zip(tensors, inputs, strict=True))
    number = count(len(state), "state tensor" if is_state else "tensor")
    claimed_a, claimed_b = more.ab(claimed, frozenset[int]())
    dropped_a, dropped_b = more.ab(dropped, frozenset[int]())
    cited_a, cited_b = more.ab(tuple(inputs), ())
    weights = [] if is_state else [p for p in inputs if is_multiplied(module, p)]
    is_block = bool(weights)
    is_nameless = is_block and not any(tensors)
    if is_nameless:
        lines = _block_lines(more, inputs)
    words = Words(BLOCK_FIX, say("" if is_nameless else BLOCK_SHORT), BLOCK_SHORT_FIX)
    if not is_block:
        words = OLD_BLEND if not is_state and blends_old(module, state) else Words()
    zero = count(len(zeros.intersection(inputs)), "new tensor")
    aside = say(f", {count(len(dropped), 'output')} of ", side, " alone left out")
    aside = aside if dropped else say()

    def undo(edit: Editors) -> None:
        edit[side].replace_uses(left)

    return Finding(
        kind=SKIPPED_BLOCK if is_nameless else OPTIMIZER_STATE if is_state else NEWLY_UPDATED,
        title=_block_title(more, less, weights, number, lines)
        if is_nameless
        else say(
            "optimizer state came into being: " if is_state else "",
            side,
            f" takes in and updates {number} that ",
            less.side,
            " has not (" if is_state or is_block else " leaves alone (",
            listed,
            ")",
            "" if is_state else at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    f"{count(len(state), 'parameter')} of ",
                    side,
                    " alone with an output of the same shape that is computed from it",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        proof=say(f"{zero} taken to be zero", aside),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        expected=is_state and not more.is_a,
    )


def _block_title(
    more: SideView,
    less: SideView,
    weights: Sequence[int],
    number: str,
    lines: Sequence[SourceLine],
) -> Message:
    inputs = more.module.entry_computation.parameters
    new = updates(more.module)
    lone = (p for p in inputs if more.partners[p] < 0 and p not in new)
    frozen = sum(is_multiplied(more.module, p) for p in lone)
    trained = f"{count(len(weights) + frozen, 'weight')}, {len(weights)} of them trained"
    return say(
        less.side,
        " leaves out a part of the model that ",
        more.side,
        f" computes with {trained if frozen else count(len(weights), 'weight')} (",
        join(short_shape(more.module, p) for p in weights),
        ")",
        at(lines),
        "; with it ",
        more.side,
        f" updates {number} that ",
        less.side,
        " has not",
    )


def _block_lines(more: SideView, inputs: Sequence[int]) -> tuple[SourceLine, ...]:
    """Where a part of the model is called; else the last line of it, going forward."""
    module = more.module
    piece = connected(module, more.lone, inputs)
    called = called_at(module, piece)
    if len(called) == 1 and not called[0].is_library:
        return called
    lines = {i: line for i in piece if (line := line_of(module, i)) and is_forward(line)}
    return (lines[max(lines)],) if lines else called


def _lines(module: Module, state: Sequence[tuple[int, int]]) -> tuple[SourceLine, ...]:
    """Where new values are made: by an optimizer, if any are (a barrier stands where it began)."""
    values = [module.outputs[k] for _, k in state]
    own = [i for i in values if runs_in_optimizer(module, i)]
    return where(module, own or values) or where(module, [p for p, _ in state])


def _is_state(case: Case, more: SideView, less: SideView, state: Sequence[tuple[int, int]]) -> bool:
    """Whether this is what an optimizer keeps: by name or line, else since zeros do for it.

    Its line also updates weights, which are multiplied with something. A line of the program's own
    is an optimizer's that it has written if the state decays and other tensors are updated by it.
    """
    inputs = [p for p, _ in state]
    tensors = [more.input_tensor(p) for p in inputs]
    if not any(tensors) and any(is_multiplied(more.module, p) for p in inputs):
        return False
    lines = _lines(more.module, state)
    if any(tensors) or (lines and is_optimizer_state(tensors, lines)):
        return is_optimizer_state(tensors, lines)
    if lines and not _steps_others(more, state):
        return False
    zeros, _ = at_zero(more.module, inputs)
    return zeros.issuperset(inputs) and _gives_back(case, less, more, inputs)


def _steps_others(more: SideView, state: Sequence[tuple[int, int]]) -> bool:
    """Whether each decays, and the new value of a tensor that both read is made from its own.

    What is only added up is a gradient of several batches.
    """
    module = more.module
    own = {p for p, _ in state}
    if not all(any(_scales(module, u) for u in uses_of(module, p)) for p in own):
        return False
    made_from = [
        formula(module, module.outputs[k])
        for p, places in updates(module).items()
        if p not in own and more.partners[p] >= 0
        for k in places
    ]
    return all(any(module.outputs[k] in one for one in made_from) for _, k in state)


def _scales(module: Module, i: int) -> bool:
    """Whether an instruction is a product, and not with one."""
    return module.opcodes[i] == "multiply" and not any(
        is_one(module, o) for o in module.operands[i]
    )


def _updated(case: Case, more: SideView, state: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that are updated indeed: what is merely read may have an output of its shape, too.

    The input gives its buffer away, or the output has its name. Where a module tells neither of
    any tensor, the output must be one that the other side has not, in whatever way it computes it.
    """
    module, context = more.module, more.context
    away = given_away(module)
    own = set(case.unpaired_outputs(more))
    is_told = bool(away or context.parameters)

    def is_updated(parameter: int, output: int) -> bool:
        tensor = more.input_tensor(parameter)
        if parameter_number(module, parameter) in away:
            return True
        return context.outputs.get(output) == tensor if tensor else not is_told and output in own

    return [(p, k) for p, k in state if is_updated(p, k)]


def _gives_back(case: Case, less: SideView, more: SideView, state: Sequence[int]) -> bool:
    """Whether a side has outputs of its own like the other's state."""
    values = less.module.outputs
    own = case.unpaired_outputs(less, replaced=True)
    given = Counter(short_shape(less.module, values[k]) for k in own)
    return Counter(short_shape(more.module, p) for p in state) <= given


def _lone(more: SideView, less: SideView, outputs: Sequence[int]) -> list[int]:
    """Those of these outputs that the other side has not: by name, else by number and shape."""
    names = more.context.outputs
    by_name = bool(less.context.outputs) and all(k in names for k in outputs)

    def key(view: SideView, k: int) -> Hashable:
        if by_name:
            return view.context.outputs.get(k)
        return short_shape(view.module, view.module.outputs[k])

    def kept(view: SideView) -> list[Hashable]:
        places = range(len(view.module.outputs))
        return [key(view, k) for k in places if k not in view.dropped]

    room = Counter(kept(more))
    room.subtract(kept(less))
    found = []
    for k in outputs:
        room[key(more, k)] -= 1
        if room[key(more, k)] >= 0:
            found.append(k)
    return found


RULE = Rule(
    name="optimizer-state",
    kinds=(OPTIMIZER_STATE, NEWLY_UPDATED, SKIPPED_BLOCK),
    find=find,
    after=("tied-weights",),
)
