"""Parts of a program that come in every n-th step: an average of the weights, a target network.

Such a step has a graph of its own, which compiles once, at the first of these steps. What its steps
show tells it from what comes by chance, or still comes:

* all its steps are equally far apart, to the end of the run, and there are several;
* nothing at its place was new in the second half of the run, and there are few such parts: many
  are the turns of a loop over a sequence, whose graph is longer from turn to turn;
* it differs, proved, in what a person switches: what is updated, which pieces are computed. A
  value that is kept to be logged, or read, in every n-th step is no such thing, but for one beside
  tensors that only these steps update.

Where sizes come in turn beside it there is such a graph for each size: all of them are one part.

So is what begins each epoch: a step that makes a sum or a state from constants, which the others
take in. It comes in every n-th step from the first of all on, and may be new for each size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED
from xlagraph.runs.by_design.few_sizes import changes_sizes_only
from xlagraph.runs.steps.order import PlaceTurns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.pairs.outcome import Outcome

TIMES = 4
"""So many steps, equally far apart, are no accident."""
EPOCHS = 3
"""So many epochs of equal length are none either."""
LASTING = 12
"""So many steps at least behind the begin of the second."""
FEW = 3
"""More parts than these at one place are none that somebody meant."""


def periodic_parts(
    graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison], design: Design
) -> dict[int, int]:
    """The graphs of parts that come in every n-th step, each with the first of its part."""
    roots: list[int] = []
    for k, comparison in enumerate(comparisons):
        here = design.turns_of_sort(k).graphs
        is_variant = changes_sizes_only(k, graphs, comparisons, here)
        roots.append(k if comparison.number is None or not is_variant else roots[comparison.number])
    begun = {root for root in set(roots) if _begins_anew(comparisons[root].outcome)}
    parts = {
        root
        for root in set(roots) - begun
        if _is_switched(root, graphs, comparisons)
        and _is_periodic(root, [{roots[k] for k in turn} for turn in design.ran_at_place(root)])
        and _is_settled(design.ran_at_place(root))
    }
    parts |= {root for root in begun if _is_of_epochs(begun, roots, design.ran_at_place(root))}
    few = {one for one in parts if len(parts.intersection(design.turns_of_sort(one).graphs)) <= FEW}
    return {k: root for k, root in enumerate(roots) if root in few}


def turns_of_part(number: int, design: Design, parts: Mapping[int, int]) -> PlaceTurns:
    """What ran at the place of a graph; steps of parts with another period are left out."""
    part = parts.get(number)
    turns = design.turns_of_sort(number).turns
    found = [k for k in turns if (parts.get(k) == part if k is not None else part is None)]
    return PlaceTurns(tuple(found), tuple(dict.fromkeys(found)))


def _begins_anew(outcome: Outcome | None) -> bool:
    """Whether a graph makes from constants what another takes in, and differs in nothing else."""
    if outcome is None or not outcome.proved or not outcome.causes:
        return False
    return all(one.kind is INITIAL_STATE and not one.expected for one in outcome.causes)


def _is_of_epochs(
    begun: Collection[int], roots: Sequence[int], turns: Sequence[frozenset[int]]
) -> bool:
    """Whether such steps and the first of all are equally far apart, to the end.

    Or another graph is new in one of them: a stage begins with it. `turns`: those of a place.
    """
    steps = [k for k, turn in enumerate(turns) if any(roots[one] in begun for one in turn)]
    if len(steps) < EPOCHS - 1 or len(turns) - 1 - steps[0] < LASTING:
        return False
    epochs = range(steps[0], len(turns), steps[0] or len(turns))
    known = {turn: k for k, turn in reversed([*enumerate(turns)])}
    return {*steps} <= {*epochs} and all(k in steps or known[turns[k]] == k for k in epochs)


def _is_switched(
    number: int, graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison]
) -> bool:
    """Whether a graph differs from one of its process in what a person switches, proved."""
    outcome: Outcome | None = comparisons[number].outcome
    other = comparisons[number].number
    if outcome is None or other is None or graphs[other].process is not graphs[number].process:
        return False
    own = [one for one in outcome.causes if not one.expected and one.kind.may_be_meant]
    rest = [one for one in outcome.causes if one not in own]
    beside = {Section.HEADER}
    if any(one.kind is NEWLY_UPDATED for one in own):
        beside.add(Section.LIVE)  # these steps have a graph of their own anyway
    return (
        outcome.proved
        and bool(own)
        and all(one.expected or one.kind.section in beside for one in rest)
    )


def _is_periodic(part: int, turns: Sequence[set[int]]) -> bool:
    """Whether all steps that may be of a part are equally far apart, to the end."""
    own = [k for k, turn in enumerate(turns) if part in turn]
    if len(own) < TIMES:
        return False
    period = own[1] - own[0]
    return period > 1 and own == list(range(own[0], len(turns), period))


def _is_settled(turns: Sequence[frozenset[int]]) -> bool:
    """Whether no graph was new in the second half of the steps."""
    half = len(turns) // 2
    before = frozenset[int]().union(*turns[:half])
    return frozenset[int]().union(*turns[half:]) <= before
