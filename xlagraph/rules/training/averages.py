"""Averages of weights that one side keeps, beside all that it trains: EMA, SWA, target networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.blends import averages_of
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.formulas import is_weight
from xlagraph.message import count, join, say
from xlagraph.rules.training.newly_updated import BLENDED
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView

WIDER = "The average of weights"
WIDER_FIX = say(
    "An average of weights (EMA, SWA, a target network) takes in parameters alone (parameters()), "
    "or buffers as well (state_dict(), use_buffers=True): average the same tensors in every step. "
    "That buffers are averaged too, or copied, is as good: keep one of the two, the change costs "
    "one compile."
)
WIDER_SHORT_FIX = say("Average the same tensors in all steps; a change of that costs one compile.")


def find(case: Case) -> list[Finding]:
    """Tensors that one side alone takes in for their averages with new weights, and for no more.

    Nothing else needs them, so that the rest of both modules is compared without them.
    """
    found = []
    for less, more in case.both_ways:
        new = renewed(less.module)
        averages = [
            (p, k)
            for p, k in averages_of(more.module)
            if k not in more.dropped and more.partners[p] not in new
        ]
        if averages and averages_of(less.module):
            averages = [(p, k) for p, k in averages if _is_own(case, more, p, k)]
        if averages:
            found.append(_finding(more, less, averages))
    return found


def _is_own(case: Case, more: SideView, parameter: int, position: int) -> bool:
    return more.partners[parameter] < 0 and position in case.unpaired_outputs(more, replaced=True)


def _words(more: SideView, less: SideView, averages: Sequence[tuple[int, int]]) -> Words:
    """What is said of averages that one side alone keeps, and of some more beside others."""
    if not averages_of(less.module):
        return BLENDED
    module = more.module
    every = averages_of(module)
    are_buffers = not any(is_weight(module, every[one]) for one in averages)
    number = count(len(averages), "further buffer" if are_buffers else "further tensor")
    kept = " (running statistics, as of a norm)" if are_buffers else ""
    short = say(WIDER, f" takes in {number}{kept} in ", more.side)
    return Words(WIDER_FIX, short, WIDER_SHORT_FIX)


def _finding(more: SideView, less: SideView, averages: Sequence[tuple[int, int]]) -> Finding:
    module, side = more.module, more.side
    dropped = frozenset(k for _, k in averages)
    inputs = [p for p, _ in averages]
    lines = where(module, [module.outputs[k] for k in sorted(dropped)])
    listed = join(parameter_name(more, p) for p in inputs)
    claimed_a, claimed_b = more.ab(
        frozenset(exclusive_slice(module, set(dropped)) | set(inputs)), frozenset[int]()
    )
    dropped_a, dropped_b = more.ab(dropped, frozenset[int]())
    cited_a, cited_b = more.ab(tuple(inputs), ())
    number = count(len(averages), "tensor")
    words = _words(more, less, averages)
    return Finding(
        kind=NEWLY_UPDATED,
        title=say(
            side, f" keeps a running average of {number} (", listed, ") that ", less.side,
            " leaves alone: new weights are blended into each", at(lines),
        ),
        evidence=(
            Evidence(
                say(f"{number} of ", side, " that serve nothing but their means with new weights"),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        proof=say(f"{number} of ", side, " left out with what only their means need"),
        a=claimed_a,
        b=claimed_b,
        dropped_a=dropped_a,
        dropped_b=dropped_b,
    )  # fmt: skip


RULE = Rule(
    name="averages",
    kinds=(),
    find=find,
    after=("zeroed-gradient",),
    before=("optimizer-state",),
    rematches=True,
)
