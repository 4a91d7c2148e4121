"""Averages of weights that one side keeps, beside all that it trains: EMA, SWA, target networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.blends import blended
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.formulas import is_weight
from xlagraph.message import count, join, say
from xlagraph.rules.training.newly_updated import BLENDED
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module

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
        averages = {
            (p, k): weight
            for (p, k), weight in _averages(more.module).items()
            if k not in more.dropped and more.partners[p] not in new
        }
        is_wider = bool(averages and _averages(less.module))
        if is_wider:
            averages = {one: w for one, w in averages.items() if _is_own(case, more, *one)}
        if averages:
            words = _wider(more, averages) if is_wider else BLENDED
            found.append(_finding(more, less, averages, words))
    return found


def _averages(module: Module) -> dict[tuple[int, int], int]:
    """Inputs with the outputs that are their means with new values of other inputs: to these."""
    new = renewed(module)
    values = module.outputs
    olds = {values[k]: q for q, places in new.items() for k in places}
    found = {}
    for p, positions in sorted(new.items()):
        weights = {value for value, q in olds.items() if q != p}
        if len(positions) != 1 or module.shapes[p].partition("{")[0].endswith("[]"):
            continue
        (k,) = positions
        weight = blended(module, p, values[k], weights - {values[k]})
        if weight is not None and _is_kept_apart(module, p, k):
            found[p, k] = olds[weight]
    return found


def _is_kept_apart(module: Module, parameter: int, position: int) -> bool:
    """Whether all that a tensor is taken in for is its own new value."""
    alone = exclusive_slice(module, {position})
    root = module.entry_computation.root
    return is_input(module, parameter) and alone.issuperset(set(module.users[parameter]) - {root})


def _is_own(case: Case, more: SideView, parameter: int, position: int) -> bool:
    return more.partners[parameter] < 0 and position in case.unpaired_outputs(more, replaced=True)


def _wider(more: SideView, averages: Mapping[tuple[int, int], int]) -> Words:
    """What is said of averages that one side keeps beside those that both do."""
    are_buffers = not any(is_weight(more.module, weight) for weight in averages.values())
    number = count(len(averages), "further buffer" if are_buffers else "further tensor")
    kept = " (running statistics, as of a norm)" if are_buffers else ""
    short = say(WIDER, f" takes in {number}{kept} in ", more.side)
    return Words(WIDER_FIX, short, WIDER_SHORT_FIX)


def _finding(
    more: SideView, less: SideView, averages: Collection[tuple[int, int]], words: Words
) -> Finding:
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
