"""Gradients that ``zero_grad(set_to_none=False)`` has zeroed, where the other side had none yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, line_of, where
from xlagraph.facts.training.updates import at_zero
from xlagraph.facts.values.turned import without_turns
from xlagraph.facts.values.vanishing import is_zero
from xlagraph.message import Code, count, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module

ZEROED_GRADIENT = Kind(
    id="zeroed-gradient",
    title="Gradients are zeroed that were None before",
    section=Section.LIVE,
    meaning="zero_grad(set_to_none=False) writes zeros into the gradients that exist, and backward "
    "adds to them. In the first step there are none, and a parameter that takes part for the first "
    "time in a later step has none until then: from the next step on it is zeroed, updated and "
    "given out, also in steps in which it takes no part.",
    before="""\
for x, y in loader:
    optimizer.zero_grad(set_to_none=False)  # there is nothing to zero in the first step
    loss_fn(model(x), y).backward()
    optimizer.step()
    torch_xla.sync()
""",
    after="""\
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
    torch_xla.sync()
""",
    evidence="The zeros, and what they are added to.",
    fix="Call zero_grad() without set_to_none=False: gradients are None then in the beginning of "
    "every step, and no graph depends on which ones earlier steps have left. Where a branch in "
    "Python decides which parameters take part, mend that too.",
    proof="The zeros are left out of the sums.",
    examples=(),
    consequences=("newly-updated", "live-tensor", "output-order"),
    short_fix="Call zero_grad() without set_to_none=False.",
)


def find(case: Case) -> list[Finding]:
    """Zeros of ``zero_grad`` of which one side has more: there were no such gradients before."""
    return [_finding(case, *views) for views in case.both_ways if _has_more(*views)]


def _has_more(less: SideView, more: SideView) -> bool:
    return len(_zeroed(less)) < len(_zeroed(more))


def _zeroed(view: SideView) -> list[int]:
    """The zeros that ``zero_grad`` writes, one for each gradient."""
    module = view.module
    entry = module.entry_computation
    return [
        i
        for i in range(entry.start, entry.stop)
        if view.matched.live[i] and is_zero(module, i) and _is_of_zero_grad(module, i)
    ]


def _is_of_zero_grad(module: Module, i: int) -> bool:
    line = line_of(module, i) if module.opcodes[i] == "constant" else None
    inner = line.called or line if line else None
    return inner is not None and inner.function == "zero_grad" and inner.is_library


def _finding(case: Case, less: SideView, more: SideView) -> Finding:
    own, before = _zeroed(more), _zeroed(less)
    number = len(own) - len(before)
    lines = where(more.module, own)
    zeros, left = at_zero(more.module, own)
    sums = {
        less.side: without_turns(less.module, at_zero(less.module, before)[1]),
        more.side: without_turns(more.module, left),
    }

    values = more.module.outputs
    unpaired = case.unpaired_outputs(more)
    gone = frozenset(k for k in unpaired if _is_as_before(more.module, values[k], zeros, left))
    dropped = more.ab(gone, frozenset[int]())

    def undo(edit: Editors) -> None:
        for side, partners in sums.items():
            edit[side].replace_uses(partners)

    cited = more.ab(tuple(own), ())
    claimed = more.ab(frozenset(zeros | left.keys()), frozenset[int]())
    return Finding(
        kind=ZEROED_GRADIENT,
        title=say(
            Code("zero_grad()"),
            f" zeroes {count(number, 'gradient')} in ",
            more.side,
            f" that {'was' if number == 1 else 'were'} None in ",
            less.side,
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    more.side,
                    f" writes {count(len(own), 'zero')} that backward adds to, ",
                    less.side,
                    f" {len(before) or 'none'}",
                ),
                *cited,
                lines,
            ),
        ),
        proof=say("the zeros were left out of what adds them, on both sides"),
        a=claimed[0],
        b=claimed[1],
        undo=undo,
        dropped_a=dropped[0],
        dropped_b=dropped[1],
        expected=not before and not more.is_a,
    )


def _is_as_before(module: Module, value: int, zeros: set[int], left: Mapping[int, int]) -> bool:
    """Whether a value is zero, or a parameter to which zeros are added: what nothing trains."""
    return value in zeros or is_input(module, left.get(value, value))


RULE = Rule(
    name="zeroed-gradient",
    kinds=(ZEROED_GRADIENT,),
    find=find,
    after=("accumulated-gradient",),
    before=("optimizer-state",),
    rematches=True,
)
