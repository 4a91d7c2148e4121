"""A step that does all that another does, and updates further tensors beside: every n-th step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, is_forward, line_of, where
from xlagraph.facts.training.updates import updates
from xlagraph.message import count, say
from xlagraph.rules.pieces.early_execution import cut_of, updates_more
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine
    from xlagraph.rules.pieces.early_execution import Cut

FIX = say(
    "Work of every n-th step (a delayed policy update, an average of the weights) makes two "
    "graphs: run a step of each sort before training, or do this work in a step of its own, "
    "between two calls of torch_xla.sync(). To have one graph, do it in every step, and let the "
    "device take the old values or the new by torch.where."
)
SHORT = say("Further tensors are updated in some steps only")
SHORT_FIX = say("Do this work in every step, or between two calls of torch_xla.sync().")

TRAINING = ("autograd", "optim")
"""Where torch computes derivatives and updates."""


def find(case: Case) -> list[Finding]:
    """One side has all that the other has, and updates tensors that the other does not."""
    cut = cut_of(case)
    return [_finding(cut)] if cut and updates_more(cut.part, cut.whole) else []


def _finding(cut: Cut) -> Finding:
    part, whole, own, missing = cut
    module, side, other = whole.module, part.side, whole.side
    values = [part.module.outputs[k] for k in own]
    on_the_way = [part.partners[value] for value in values]
    claimed = frozenset(exclusive_slice(module, missing, extra=on_the_way))
    lines = _lines(module, claimed)
    mine = {part.partners[p] for p in updates(part.module)}
    further = [p for p in updates(module) if p not in mine]
    dropped_a, dropped_b = part.ab(frozenset(own), frozenset(missing))
    cited_b, cited_a = part.ab(tuple(further), ())
    claimed_b, claimed_a = part.ab(claimed, frozenset[int]())

    def undo(edit: Editors) -> None:
        edit[other].outputs += on_the_way
        edit[side].outputs += values

    return Finding(
        kind=NEWLY_UPDATED,
        title=say(
            other,
            " does all that ",
            side,
            f" does, and updates {count(len(further), 'tensor')} more",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    f"{count(len(claimed), 'instruction')} and {count(len(missing), 'output')} of ",
                    other,
                    " alone; ",
                    side,
                    " has none that ",
                    other,
                    " does not compute",
                ),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        short=SHORT,
        fix=FIX,
        short_fix=SHORT_FIX,
        proof=say(count(len(missing), "output"), " of ", other, " left out with what they need"),
        a=claimed_a,
        b=claimed_b,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
        undo=undo,
    )


def _lines(module: Module, piece: Collection[int]) -> tuple[SourceLine, ...]:
    """The last line of the work's own forward pass, near which its derivatives begin.

    What no optimizer's step needs, as an average of the weights, is asked where nothing else is.
    """
    leads = bytearray(len(module))
    found: dict[bool, SourceLine] = {}
    for i in sorted(piece, reverse=True):
        line = line_of(module, i)
        if leads[i] or (line and _trains(line)):
            for o in module.operands[i]:
                leads[o] = True
        if line and is_forward(line) and module.operands[i]:
            found.setdefault(bool(leads[i]), line)
    line = found.get(True) or found.get(False)
    return (line,) if line else where(module, piece)


def _trains(line: SourceLine) -> bool:
    """Whether this is a derivative's line, or an optimizer's."""
    inner = line.called or line
    return bool(line.backward_of) or any(f"torch/{part}/" in inner.file for part in TRAINING)


RULE = Rule(
    name="more-updates",
    kinds=(),
    find=find,
    after=("kept-parameters",),
    before=("early-execution",),
)
