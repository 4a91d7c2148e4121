"""Averages of weights that one side keeps, beside all that it trains: EMA, SWA, target networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import exclusive_slice
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.blends import is_blend
from xlagraph.facts.training.updates import renewed
from xlagraph.message import count, join, say
from xlagraph.rules.training.newly_updated import BLENDED
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module


def find(case: Case) -> list[Finding]:
    """Tensors that one side alone takes in for their averages with new weights, and for no more.

    Nothing else needs them, so that the rest of both modules is compared without them.
    """
    found = []
    for less, more in case.both_ways:
        new = renewed(less.module)
        averages = [
            (p, k)
            for p, k in _averages(more.module)
            if k not in more.dropped and more.partners[p] not in new
        ]
        if averages and _averages(less.module):
            averages = [(p, k) for p, k in averages if _is_own(case, more, p, k)]
        if averages:
            found.append(_finding(more, less, averages))
    return found


def _averages(module: Module) -> list[tuple[int, int]]:
    """Inputs with the outputs that are their means with new values of other inputs."""
    new = renewed(module)
    values = module.outputs
    found = []
    for p, positions in sorted(new.items()):
        weights = {values[k] for q, places in new.items() if q != p for k in places}
        if len(positions) != 1 or module.shapes[p].partition("{")[0].endswith("[]"):
            continue
        (k,) = positions
        if is_blend(module, p, values[k], weights - {values[k]}) and _is_kept_apart(module, p, k):
            found.append((p, k))
    return found


def _is_kept_apart(module: Module, parameter: int, position: int) -> bool:
    """Whether all that a tensor is taken in for is its own new value."""
    alone = exclusive_slice(module, {position})
    root = module.entry_computation.root
    return is_input(module, parameter) and alone.issuperset(set(module.users[parameter]) - {root})


def _is_own(case: Case, more: SideView, parameter: int, position: int) -> bool:
    return more.partners[parameter] < 0 and position in case.unpaired_outputs(more, replaced=True)


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
        fix=BLENDED.fix,
        short=BLENDED.short,
        short_fix=BLENDED.short_fix,
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
