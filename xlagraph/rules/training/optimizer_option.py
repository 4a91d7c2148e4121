"""A term of the optimizer's formula that one side has and the other leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, line_of, stack, where
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.pieces.pieces import OUTPUT
from xlagraph.facts.training.optimizers import is_bare_operator, looks_ahead, runs_in_optimizer
from xlagraph.facts.training.state import is_factor
from xlagraph.facts.training.updates import formula, in_updates, updates
from xlagraph.facts.values.scalars import is_number, is_scalar_input, without_one
from xlagraph.message import count, join, say

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine
    from xlagraph.tensors import Tensor

OPTIMIZER_OPTION = Kind(
    id="optimizer-option",
    title="An option of the optimizer is on, on one side only",
    section=Section.PIECES,
    meaning="Optimizers leave out what an option of 0 or False does not need: weight decay, "
    "momentum, maximize, the rectification of RAdam's first steps. Switched on later, its term is "
    "in the graph from then on.",
    before="""\
for step, (x, y) in enumerate(loader):
    if step == 4:
        optimizer.param_groups[0]["weight_decay"] = 0.01
    update(loss_fn(model(x), y))
""",
    after="""\
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-30)
for step, (x, y) in enumerate(loader):
    if step == 4:
        optimizer.param_groups[0]["weight_decay"] = 0.01
    update(loss_fn(model(x), y))
""",
    evidence="The term, the tensors that it updates, and the line of the optimizer.",
    fix="Set the option from the first step on, alike in every step (nesterov, maximize, amsgrad). "
    "One that is a number may do nearly nothing where nothing is wanted (for SGD "
    "weight_decay=1e-30; for AdamW large enough that 1 - lr * weight_decay is not 1): 0 leaves its "
    "term out, and other numbers are parameters of the graph. What the optimizer itself decides by "
    "the number of steps, capturable=True decides on the device.",
    proof="The term is bypassed.",
    examples=("weight_decay_late", "decoupled_decay_late"),
    family=Family.BRANCH,
    short="An option of the optimizer is switched on",
    short_fix="Set it from the first step on; a number may be tiny.",
    consequences=("optimizer-state", "newly-updated", "special-scalar"),
    is_piece=True,
    may_be_meant=True,
)

ROOTS = frozenset({"rsqrt", "sqrt"})
MAX_FACTORS = 16
"""Terms and factors of an average that are looked at for a square."""
COMBINES = frozenset({"add", "subtract", "multiply", "divide", "maximum", "power"})
"""What joins a term or a factor to a formula."""
READ_ONLY = 3
"""More tensors than these beside a single one with a new value are weights that are only read."""
PERMUTES = frozenset({"gather", "reverse", "scatter", "sort"})
"""What no optimizer does with a weight: a batch that is mixed with itself looks like one that is
updated, where it is kept."""
_RADAM = re.compile(r"(^|/)optim/radam\.py$")
RADAM_SHORT = say("RAdam begins to rectify its steps")
RADAM_SHORT_FIX = say("Set capturable=True; or accept one compile.")
RADAM_FIX = say(
    "RAdam rectifies its steps only once it has made enough of them (from the sixth on with the "
    "usual betas), and Python decides that by their number: one compile is its price. With "
    "capturable=True the device decides, and the graph stays the same."
)


ROOT_SHORT = "The step is divided by the root of mean squares in "
ROOT_ONLY = " only, as by RAdam from its sixth step on"
ROOT_FIX = (
    "Both keep averages of the gradients' squares, and one alone divides by their root: an "
    "optimizer that decides by the number of its steps does that, or somebody has edited it. "
)
ROOT_SHORT_FIX = say("With RAdam set capturable=True, or accept one compile.")
NESTEROV_SHORT = say("An option of the optimizer (nesterov) is switched on")
STATE_SHORT = say("An optimizer's option brings state of its own")
STATE_SHORT_FIX = say("Set the option (amsgrad, centered) alike in every step.")
STATE_FIX = say(
    "The option keeps a tensor more for each weight (amsgrad the largest averages so far, centered "
    "the averages of the gradients): set it before the first step, and leave it. Switched on once, "
    "one compile is its price."
)

_SGD = re.compile(r"(^|/)optim/sgd\.py$")
MOMENTUM_SHORT = say("An optimizer begins its momentum in some steps")
MOMENTUM_SHORT_FIX = say("Keep one optimizer, and make none anew.")
MOMENTUM_FIX = say(
    "SGD makes its momentum in its first step, which is a graph of its own: one compile. An "
    "optimizer that is made anew, as for each client or round, begins with that graph again, and "
    "compiles nothing. Keep one optimizer where that is not on purpose."
)


def find(case: Case) -> list[Finding]:
    """Pieces that stand in the update of parameters alone, and nowhere else.

    Without lines such a piece is told from what differs elsewhere in the graph by that alone.
    """
    options = filter(None, map(option_of, bypasses(case)))
    return [replace(one, brings=partial(_brings, one)) for one in map(_finding, options)]


def _brings(option: Finding, other: Finding, diff: Diff) -> bool:
    """Whether another cause comes of it: of numbers those that the same file of a library takes.

    Without lines those of RAdam do, which adds its steps times -1 whatever the learning rate is.
    """
    if other.kind.id != "special-scalar":
        return True
    if str(option.short).startswith(ROOT_SHORT) and not (option.lines or other.lines):
        sides = (diff.a, other.a), (diff.b, other.b)
        return all(map(_is_subtracted, *zip(*sides, strict=True)))
    files = {line.file for line in option.lines if line.is_library}
    return bool(other.lines) and all(line.file in files for line in other.lines)


def _is_subtracted(module: Module, piece: Collection[int]) -> bool:
    """Whether all constants of a piece are -1, and all of it stands in updates of parameters."""
    alone = {i for i in piece if module.opcodes[i] not in ("constant", "parameter", "tuple")}
    numbers = {module.payloads[i] for i in piece if module.opcodes[i] == "constant"}
    return numbers <= {"-1"} and alone <= in_updates(module)


def option_of(found: Bypass) -> Bypass | None:
    """What of a bypass stands in the update of parameters alone; None if nothing does."""
    if is_option(found):
        return found
    part = None if found.lines else found.among(in_updates(found.more.module))
    return part if part and is_option(part) else None


def _finding(found: Bypass) -> Finding:
    more, less = found.more, found.less
    places, outputs, partners = _updates(found), more.module.outputs, more.partners
    places = [k for k in places if partners[outputs[k]] >= 0] or places
    lines = _lines(found)
    title = say(
        "the optimizer computes ",
        found.words,
        " in ",
        more.side,
        " that it does not in ",
        less.side,
        f", for {count(len(places), 'tensor')} (",
        join(_named(more, k) for k in places),
        ")",
        at(lines),
    )
    files = {one.file for i in found.piece for one in stack(more.module, i)}
    if _tensors(found) and any(map(_SGD.search, files)):
        finding = bypass_finding(found, OPTIMIZER_OPTION, title, fix=MOMENTUM_FIX, lines=lines)
        return replace(finding, short=MOMENTUM_SHORT, short_fix=MOMENTUM_SHORT_FIX)
    if _tensors(found):
        finding = bypass_finding(found, OPTIMIZER_OPTION, title, fix=STATE_FIX, lines=lines)
        return replace(finding, short=STATE_SHORT, short_fix=STATE_SHORT_FIX)
    if all(looks_ahead(more.module, edge.value(more), value) for edge, value in found.uses.items()):
        finding = bypass_finding(found, OPTIMIZER_OPTION, title, lines=lines)
        return replace(finding, short=NESTEROV_SHORT)
    is_known = any(map(_RADAM.search, files))
    if not is_known and (found.lines or not _divides_by_root(found)):
        return bypass_finding(found, OPTIMIZER_OPTION, title, lines=lines)
    finding = bypass_finding(found, OPTIMIZER_OPTION, title, fix=RADAM_FIX, lines=lines)
    if is_known:
        return replace(finding, short=RADAM_SHORT, short_fix=RADAM_SHORT_FIX)
    short = say(ROOT_SHORT, more.side, ROOT_ONLY)
    fix = say(ROOT_FIX, RADAM_FIX)
    return replace(finding, short=short, fix=fix, short_fix=ROOT_SHORT_FIX)


def _divides_by_root(found: Bypass) -> bool:
    """Whether it takes the root of averages of squares that both sides keep and renew."""
    module, partners = found.more.module, found.more.partners
    roots = [i for i in found.piece if module.opcodes[i] in ROOTS and not is_number(module, i)]
    below = {without_one(module, module.operands[i][0]) for i in roots}
    own, theirs = set(module.outputs), set(found.less.module.outputs)
    return bool(below) and all(
        i in own and partners[i] in theirs and _is_of_squares(module, i) for i in below
    )


def _is_of_squares(module: Module, value: int) -> bool:
    """Whether a sum has a square among its terms, scaled or not."""
    stack = [value]
    for i in stack:  # grows while it is read
        operands = module.operands[i]
        if module.opcodes[i] == "multiply" and len(set(operands)) == 1:
            return True
        if module.opcodes[i] in ("add", "multiply") and len(stack) < MAX_FACTORS:
            stack += operands
    return False


def is_option(found: Bypass) -> bool:
    """Whether a piece stands in the update of parameters alone, and only state comes in for it."""
    return bool(_updates(found)) and all(_has_own_value(found.more, i) for i in _tensors(found))


def _tensors(found: Bypass) -> set[int]:
    """The tensors that the piece takes in and the other side does not."""
    module = found.more.module
    return {i for i in found.piece if is_input(module, i) and not is_scalar_input(module, i)}


def _has_own_value(more: SideView, tensor: int) -> bool:
    """Whether a tensor has a new value that the other side has not: it is state, and no mask."""
    values = (more.module.outputs[k] for k in updates(more.module).get(tensor, ()))
    return any(more.partners[v] < 0 and not is_factor(more.module, tensor, v) for v in values)


def _named(view: SideView, place: int) -> Message | Tensor:
    tensor = view.context.outputs.get(place)
    return tensor or say(short_shape(view.module, view.module.outputs[place]))


def _updates(found: Bypass) -> list[int]:
    """The outputs, new values of parameters, that the piece goes into; empty if elsewhere too.

    By the lines, where they are known: all are an optimizer's. Else by the formula: the piece is
    part of it, and takes in a parameter that is updated, or the new value of one (as of momentum).
    A whole update is no option of one.
    Nor is a function of one value alone (an exponential before one weight is updated), unless most
    new values come by it: what an option adds is a term or a factor.
    """
    module = found.more.module
    handed_on = (value for edge, value in found.uses.items() if edge.place == OUTPUT)
    if any(is_input(module, value) for value in handed_on):
        return []
    values = {edge.value(found.more) for edge in found.uses}
    new = updates(module)
    formulas = {k: formula(module, module.outputs[k]) for places in new.values() for k in places}
    touched = sorted(k for k, whole in formulas.items() if not values.isdisjoint(whole))
    reached = set[int]().union(*(formulas[k] for k in touched))
    if not touched or not values <= reached:
        return []
    if found.lines:
        return touched if _is_of_optimizer(found) else []
    served = {edge.user(found.more) for edge in found.uses if edge.place != OUTPUT}
    if _is_sampled(module, new) or not served <= reached:
        return []  # a new value that the forward pass takes in is a statistic's
    is_part = all(i in reached or module.shapes[i].endswith("[]") for i in found.piece)
    is_part = is_part and not any(module.opcodes[i] in PERMUTES for i in found.piece)
    taken = {o for i in found.piece for o in module.operands[i]}
    is_of_most = len(values) > 1 and 2 * len(touched) >= len(formulas)
    is_term = is_of_most or any(module.opcodes[i] in COMBINES for i in found.piece)
    state = {*new, *(module.outputs[k] for k in formulas)}
    return touched if is_part and is_term and not taken.isdisjoint(state) else []


def _is_sampled(module: Module, new: Collection[int]) -> bool:
    """Whether one tensor alone has a new value beside a model's weights, as what is denoised."""
    inputs = [i for i in module.entry_computation.parameters if not module.shapes[i].endswith("[]")]
    return len(new) == 1 and len(inputs) > len(new) + READ_ONLY


def _is_of_optimizer(found: Bypass) -> bool:
    """Whether an optimizer runs the piece; operators of an unknown line are whose the rest is."""
    module = found.more.module
    own = [i for i in found.piece if not is_bare_operator(module, i)]
    return any(line_of(module, i) for i in own) and all(runs_in_optimizer(module, i) for i in own)


def _lines(found: Bypass) -> tuple[SourceLine, ...]:
    """The lines of the piece, without those of operators that the optimizer calls."""
    module = found.more.module
    return where(module, (i for i in found.piece if not is_bare_operator(module, i)))


RULE = Rule(
    name="optimizer-option",
    kinds=(OPTIMIZER_OPTION,),
    find=find,
    after=("random-numbers",),
)
