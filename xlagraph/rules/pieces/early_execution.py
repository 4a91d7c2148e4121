"""A graph that was cut: a value was read, or a sync stands in the middle of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.repeats import repeats
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.added_gradients import accumulated
from xlagraph.facts.training.gradients import is_multiplied
from xlagraph.facts.training.updates import updates
from xlagraph.message import count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Message, SourceLine

MEANINGFUL_CUT = 0.1
"""Part of a module that must come after a cut, where the capture does not tell of one."""

EARLY_EXECUTION = Kind(
    id="early-execution",
    title="Part of the step ran early",
    section=Section.PIECES,
    meaning="Python asked for a value before the step's end (.item(), print, an if on a tensor), "
    "dynamo broke the graph, or torch_xla.sync() stands at another line. What the value needs is "
    "compiled as a graph of its own, and the rest of the step becomes another graph than it was.",
    before="""\
for step, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y)
    if step % 4 == 3:
        print(loss.item())  # runs the forward pass here, alone
    update(loss)
""",
    after="""\
for step, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y)
    if step % 4 == 3:
        xm.add_step_closure(print, args=(loss.detach(),))
    update(loss)
""",
    evidence="What ended the graph, at which line, and the values at the cut.",
    fix="Read the value after the step's end, below torch_xla.sync().",
    proof="The other module is cut at the same place.",
    examples=("early_item", "weights_read_early", "print_tensor", "graph_break", "extra_sync"),
    short_fix="Read the value after the step's end, below torch_xla.sync().",
)
SYNC_FIX = say(
    "Each torch_xla.sync() compiles a graph of its own for what was traced so far: leave it out, "
    "or, if it ends something else (an evaluation), run that in the first steps already."
)
CUT_FIX = say(
    "Something between the two parts needs a value or cannot be traced (a read, a print, a dynamo "
    "graph break): move it behind the step's end (torch_xla.sync())."
)
READ = say("a value was read before the step ended")
SYNC = say("one more torch_xla.sync() cut the step")
SYNC_SHORT = say("Leave this torch_xla.sync() out, or run it in the first steps already.")
CUT_SHORT = say("Move what needs a value behind the step's end.")


class Cut(NamedTuple):
    """One side that is the beginning of the other."""

    part: SideView
    whole: SideView
    own: list[int]
    """Outputs of the part that the whole computes on the way."""
    missing: list[int]
    """Outputs of the whole that the part has not."""


def find(case: Case) -> list[Finding]:
    """One module is only the beginning of the other: its sync was a value being read."""
    if is_jitted(case.diff.a) and is_jitted(case.diff.b):
        return []  # a traced function is one graph, whatever reads its results
    cut = cut_of(case)
    return [_finding(*cut)] if cut and not updates_more(*cut[:2]) else []


def cut_of(case: Case) -> Cut | None:
    """Where one module ends that is only the beginning of the other.

    Repeated expressions do not count: they come and go with what is traced.
    """
    if all(slot.a is not None and slot.b is not None for slot in case.diff.outputs):
        return None
    copies = repeats(case)
    if any(x not in copies.a for x, _, _ in case.open_changes()):
        return None
    for part, whole in reversed(case.both_ways):
        own = case.unpaired_outputs(part, replaced=True)
        missing = case.unpaired_outputs(whole, replaced=True)
        copied = part.mine((copies.a, copies.b))
        if set(part.open_lone()) - copied:
            continue
        cut = [part.partners[part.module.outputs[k]] for k in own]
        if not missing or min(cut, default=0) < 0 or accumulated(part, whole):
            continue
        is_cut = bool(cut) and _may_be_cut(part, whole, missing, cut)
        is_read = part.context.sync_kind == "value" and not own and not _at_one_place(case)
        if is_cut or is_read:
            return Cut(part, whole, own, missing)
    return None


def updates_more(part: SideView, whole: SideView) -> bool:
    """Whether both are steps, and one updates further tensors: no record tells of another sync.

    What ran early updates nothing; a step that updates tensors does what it is for.
    """
    if part.context.sync_kind:
        return False
    stepped = updates(part.module)
    if not any(is_multiplied(part.module, p) for p in stepped):
        return False  # an input that is subtracted, say
    mine = {part.partners[p] for p in stepped}
    return any(
        p not in mine and not whole.module.shapes[p].endswith("[]") for p in updates(whole.module)
    )


def _at_one_place(case: Case) -> bool:
    """Whether both syncs are of one kind and came from one line: neither is an early one."""
    return _came_from_one_place(case.a, case.b)


def _came_from_one_place(one: SideView, other: SideView) -> bool:
    a, b = one.context, other.context
    return (a.sync_kind, a.call_site) == (b.sync_kind, b.call_site)


def _may_be_cut(
    part: SideView, whole: SideView, missing: Sequence[int], cut: Sequence[int]
) -> bool:
    """Whether a sync that ends here is plausible: it came from elsewhere, or is far from the end.

    Where both came from one line, or the capture does not tell, values that only came in, or
    that stand in for equally many of the same shapes, are results that the other side computes
    further: no cut.
    """
    kind, is_one_place = part.context.sync_kind, _came_from_one_place(part, whole)
    if kind and kind != "step" and not is_one_place:
        return True
    module = whole.module
    entry = module.entry_computation
    rest = len(exclusive_slice(module, missing, extra=cut))
    if rest < MEANINGFUL_CUT * (entry.stop - entry.start):
        return False
    if kind == "step":
        return not is_one_place
    shapes = [
        [module.shapes[i] for i in ends] for ends in (cut, [module.outputs[k] for k in missing])
    ]
    return shapes[0] != shapes[1] and not any(is_input(module, i) for i in cut)


def _finding(
    part: SideView, whole: SideView, own: Sequence[int], missing: Sequence[int]
) -> Finding:
    """`part` is the beginning of `whole`."""
    side, other = part.side, whole.side
    values = [part.module.outputs[k] for k in own]
    cut = [part.partners[value] for value in values]
    kind, site = part.context.sync_kind, part.context.call_site
    is_value, is_step = kind == "value", kind == "step"
    lines: tuple[SourceLine, ...] = (site,) if site and (is_value or is_step) else ()
    lines = lines or where(part.module, values)
    end = whole.context.call_site if whole.context.sync_kind == "step" else None
    number = count(len(part.module.outputs), "output")
    what = (
        "a value was read early"
        if is_value
        else "a torch_xla.sync()"
        if is_step
        else "the graph was cut"
    )
    cited_b, cited_a = part.ab(tuple(cut), ())
    claimed = frozenset(exclusive_slice(whole.module, missing, extra=cut))
    claimed_b, claimed_a = part.ab(claimed, frozenset[int]())
    dropped_a, dropped_b = part.ab(frozenset(own), frozenset(missing))

    def undo(edit: Editors) -> None:
        edit[other].outputs += cut
        edit[side].outputs += values

    return Finding(
        kind=EARLY_EXECUTION,
        title=say(
            what,
            at(lines),
            " cut the graph: " if is_step else ": ",
            side,
            " is the part of ",
            other,
            f" that computes {number}",
        ),
        evidence=(
            Evidence(
                say(
                    side,
                    " ran because Python asked for a value (.item(), print, if), before the step's "
                    f"end; it has {count(len(missing), 'output')} fewer than ",
                    other,
                )
                if is_value
                else say(
                    side,
                    f" ends in {count(len(own), 'value')} that ",
                    other,
                    " computes on the way",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        short=READ if is_value else SYNC if is_step else say(),
        fix=_read_fix(end) if is_value else SYNC_FIX if is_step else CUT_FIX,
        short_fix=_read_short(end) if is_value else SYNC_SHORT if is_step else CUT_SHORT,
        proof=say(
            other, " was cut where ", side, f" ends; {count(len(missing), 'output')} left out"
        ),
        a=claimed_a,
        b=claimed_b,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        undo=undo,
    )


def _read_fix(end: SourceLine | None) -> Message:
    """`end`: where the whole step ends, if that is known."""
    return say(
        "Keep the value on the device (detach), and read it after the step's end, below ",
        say("the torch_xla.sync() at ", end) if end else "torch_xla.sync()",
        "; or have it fetched by xm.add_step_closure. If it is no part of the step (an evaluation, "
        "say), nothing is wrong with its first graph: run it once before training.",
    )


def _read_short(end: SourceLine | None) -> Message:
    if end is None:
        return say()  # as the kind says
    return say("Read it after the step's end, below ", end.forward, ".")


RULE = Rule(
    name="early-execution",
    kinds=(EARLY_EXECUTION,),
    find=find,
    after=("buckets",),
)
