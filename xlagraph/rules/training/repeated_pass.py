"""A whole pass that one side computes once more: accumulation, or a step without its barrier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import at, called_at, is_forward, line_of, where
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.program.step_places import within_step
from xlagraph.facts.training.updates import formula, updates
from xlagraph.facts.values.notation import elements
from xlagraph.facts.values.telling import HEAVY, PLAIN
from xlagraph.message import say

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

ACCUMULATION_COUNT = Kind(
    id="accumulation-count",
    title="A pass is computed more often on one side",
    section=Section.PIECES,
    meaning="Gradients of several batches are added up before one update, and the number of "
    "batches is not the same in every step: the last group of an epoch is shorter, or the number "
    "is raised. Every number is a graph of its own, a copy of forward and backward larger.",
    before="""\
batches = list(loader)
for step, number in enumerate([2, 2, 2, 3, 3]):
    for x, y in batches[:number]:
        loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    after="""\
for p in model.parameters():
    p.grad = torch.zeros_like(p)
torch_xla.sync()
batches = list(loader)
for step, number in enumerate([2, 2, 2, 3, 3]):
    for x, y in batches[:number]:
        loss_fn(model(x), y).backward()
        torch_xla.sync()  # one graph for every batch, whatever their number
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    torch_xla.sync()
""",
    evidence="How often the pass's products and other telling operations stand on both sides.",
    fix="Call torch_xla.sync() after each pass; where gradients are added up, after each backward, "
    "with zero_grad(set_to_none=False): one graph then serves every batch, whatever their number. "
    "Or make the number the same in every step: drop the last group of an epoch.",
    proof="The further pass is bypassed.",
    examples=("accumulation_raised", "accumulation_count", "accumulation_ramp"),
    family=Family.BRANCH,
    short="Some steps compute more passes than others",
    short_fix="Call torch_xla.sync() after each pass, or keep their number.",
    is_piece=True,
)
MISSING_BARRIER = Kind(
    id="missing-barrier",
    title="Two steps are in one graph",
    section=Section.PIECES,
    meaning="One side computes the step twice, the second time with the weights that the first one "
    "updated: torch_xla.sync() (xm.mark_step()) was left out between two steps, by a continue, a "
    "condition, or a loop that ends elsewhere.",
    before="""\
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 4:
        continue  # leaves the barrier out
    torch_xla.sync()
""",
    after="""\
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    evidence="How often the operations stand on both sides, and that updated weights are used.",
    fix="Call torch_xla.sync() (xm.mark_step()) at the end of every step, whatever the step skips: "
    "before each continue, after the loop's last step. A loader wrapped in MpDeviceLoader does it.",
    proof="The further step is bypassed.",
    examples=("missing_barrier", "barrier_every_fourth"),
    family=Family.BRANCH,
    short_fix="Call torch_xla.sync() at the end of every step.",
    is_piece=True,
)
MICRO_BATCHES = "A batch is cut into another number of micro-batches: "
PARTS_FIX = say(
    "The loop over the parts of a batch runs in Python, so that each number of them is a graph. "
    "Keep their number; or call torch_xla.sync() after each backward, or loop on the device "
    "(jax.lax.scan), so that one graph serves every part."
)
PARTS_SHORT_FIX = say("Keep their number, or run each part by one graph.")
CUT_AND_SUMMED = PLAIN | {"slice", "add"}
"""What makes the parts of a batch, and sums up what they give."""
ALIKE = 0.8
"""This part of a piece has copies among what both sides compute, if it is another pass."""
LOOKS_UP = frozenset({"gather", "scatter"})
"""A table's rows, or the number of a class: what a loss does too."""
MULTIPLIES = frozenset({"convolution", "dot"})
MAX_CHAINS = 8
MAX_STEPS = 32


class _Keys(NamedTuple):
    """What tells the operations of both sides from each other."""

    more: Sequence[Hashable]
    less: Sequence[Hashable]
    are_exact: bool
    """Whether sizes count: those of a pass over a part of a batch are other ones."""


def find(case: Case) -> list[Finding]:
    """Pieces that compute again what both sides compute, as often as the rest does."""
    return [finding for found in bypasses(case) if (finding := _finding(found))]


def _finding(found: Bypass) -> Finding | None:
    more, less = found.more, found.less
    exact = _Keys(more.matched.labels, less.matched.labels, are_exact=True)
    sizeless = _Keys(_sizeless(more.module), _sizeless(less.module), are_exact=False)
    keys = exact if _turns(found, exact) else sizeless
    turns = _turns(found, keys)
    kind = _kind(found, keys) if turns else None
    if kind is None:
        return None
    done = (
        f" computes the step {_times(turns[1])}, the next time with the updated weights, where "
        if kind is MISSING_BARRIER
        else f" computes the same pass {_times(turns[1])} where "
    )
    lines = where(more.module, () if keys.are_exact else _cuts(more.module)) or _lines(found, keys)
    title = say(more.side, done, less.side, f" does it {_times(turns[0])}", at(lines))
    text = say(more.side, " computes ", found.words, " that stand in ", less.side, " too")
    if keys.are_exact or kind is MISSING_BARRIER:
        return bypass_finding(found, kind, title, Evidence(text), lines=lines)
    finding = bypass_finding(found, kind, title, Evidence(text), fix=PARTS_FIX, lines=lines)
    numbers = (f"{turns[1]} in ", more.side, f", {turns[0]} in ", less.side)
    return replace(finding, short=say(MICRO_BATCHES, *numbers), short_fix=PARTS_SHORT_FIX)


def _lines(found: Bypass, keys: _Keys) -> tuple[SourceLine, ...]:
    """Where the program runs the pass: the line that all of it is called from, if that is known.

    A line that runs once a step, or leads to its end, is left for the first one within.
    """
    more, in_less = found.more, _counts(found.less, keys.less)
    copies = (i for i in found.piece if keys.more[i] in in_less)
    again = [i for i in copies if more.module.opcodes[i] not in PLAIN]
    called = called_at(more.module, again)
    if not called or called[0].is_library:
        return found.lines
    if len(called) > 1:
        return _last(more.module, again) or found.lines
    return (within_step(more, again, called[0]),)


def _last(module: Module, again: Iterable[int]) -> tuple[SourceLine, ...]:
    """The line of the forward pass that comes last in it: where only innermost frames are known.

    The loss is computed in the loop, as a rule, and the layers elsewhere.
    """
    lines = ((i, line) for i in again if (line := line_of(module, i)) and is_forward(line))
    plain = (line for _, line in sorted(lines, reverse=True) if not line.called)
    return tuple(islice(plain, 1))


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _turns(found: Bypass, keys: _Keys) -> tuple[int, ...]:
    """How often `less` and `more` compute what the piece repeats; empty if it repeats nothing.

    Nearly all of the piece has copies among what both sides compute, and its heavy operations
    stand the same number of times as often in one module as in the other.
    """
    turns = _times_as_often(found, keys)
    if keys.are_exact or not turns:
        return turns
    few, many = (len(_cuts(view.module)) or 1 for view in (found.less, found.more))
    return (few, many) if few < many and turns[0] * many == turns[1] * few else ()


def _times_as_often(found: Bypass, keys: _Keys) -> tuple[int, ...]:
    opcodes, labels = found.more.module.opcodes, keys.more
    untold = PLAIN if keys.are_exact else CUT_AND_SUMMED
    telling = [i for i in found.piece if opcodes[i] not in untold]
    heavy = {labels[i] for i in telling if opcodes[i] in HEAVY}
    if {opcodes[i] for i in telling} & HEAVY <= LOOKS_UP and not MULTIPLIES.isdisjoint(opcodes):
        return ()  # another table, or another loss, of the same pass
    in_less = _counts(found.less, keys.less)
    if sum(1 for i in telling if labels[i] in in_less) < ALIKE * len(telling) or not heavy:
        return ()
    in_more = _counts(found.more, labels)
    found_turns = sorted((in_less[label], in_more[label]) for label in heavy)
    few, many = found_turns[0]
    is_even = all(few * n == many * k and k for k, n in found_turns)
    return (few, many) if few < many and is_even else ()


def _counts(view: SideView, labels: Sequence[Hashable]) -> Counter[Hashable]:
    """How often each label stands among the live instructions."""
    live = view.matched.live
    return Counter(label for i, label in enumerate(labels) if live[i])


def _sizeless(module: Module) -> list[tuple[str, str, int]]:
    """What tells operations from others where a pass over a part of a batch has other sizes."""
    shapes = (bare_shape(module, i) for i in range(len(module)))
    return [
        (opcode, shape.partition("[")[0], shape.count(","))
        for opcode, shape in zip(module.opcodes, shapes, strict=True)
    ]


def _cuts(module: Module) -> tuple[int, ...]:
    """The slices that cut one input into equal parts, as many as go into it; empty if none do."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, opcode in enumerate(module.opcodes):
        if opcode == "slice" and _is_sent(module, module.operands[i][0]):
            whole, part = elements(module, module.operands[i][0]), elements(module, i)
            parts = whole // part if part and whole % part == 0 else 0
            found.setdefault((module.operands[i][0], parts), []).append(i)
    whole_cuts = (cut for (_, parts), cut in found.items() if 1 < parts == len(cut))
    return tuple(next(whole_cuts, ()))


def _is_sent(module: Module, i: int) -> bool:
    while module.opcodes[i] in ("reshape", "bitcast", "copy"):
        i = module.operands[i][0]
    return is_input(module, i)


def _kind(found: Bypass, keys: _Keys) -> Kind | None:
    """A step with its update, a pass beside another one, or neither: a loop in one pass."""
    if _uses_updated(found.more.module):
        return None if _uses_updated(found.less.module) else MISSING_BARRIER
    more, less = found.more.module, found.less.module
    heavy = {keys.more[i]: None for i in sorted(found.piece) if more.opcodes[i] in HEAVY}
    is_longer = any(
        _chain(more, keys.more, one) > _chain(less, keys.less, one)
        for one in islice(heavy, MAX_CHAINS)
    )
    return None if is_longer else ACCUMULATION_COUNT


def _uses_updated(module: Module) -> bool:
    """Whether a heavy operation takes in a parameter's new value, as the next step does.

    A new value is made of heavy ones, as gradients are: a batch that is mixed is none.
    """
    for parameter, places in updates(module).items():
        shape = module.shapes[parameter]
        for place in places:
            for i in formula(module, module.outputs[place]):
                is_new = module.opcodes[i] not in PLAIN | HEAVY and module.shapes[i] == shape
                is_used = is_new and _feeds_heavy(module, i) and parameter in formula(module, i)
                if is_used and any(module.opcodes[j] in HEAVY for j in made_of(module, i)):
                    return True
    return False


def _feeds_heavy(module: Module, value: int) -> bool:
    stack = list(module.users[value])
    for user in stack:  # grows while it is read
        if module.opcodes[user] in HEAVY:
            return True
        if module.opcodes[user] in PLAIN - {"tuple"} and len(stack) < MAX_STEPS:
            stack += module.users[user]
    return False


def _chain(module: Module, labels: Sequence[Hashable], label: Hashable) -> int:
    """How many instructions with this label follow each other at most."""
    entry = module.entry_computation
    longest = [0] * (entry.stop - entry.start)
    for i in range(entry.start, entry.stop):
        below = max((longest[o - entry.start] for o in module.operands[i]), default=0)
        longest[i - entry.start] = below + (labels[i] == label)
    return max(longest, default=0)


RULE = Rule(
    name="repeated-pass",
    kinds=(ACCUMULATION_COUNT, MISSING_BARRIER),
    find=find,
    after=("repeated-expression",),
)
