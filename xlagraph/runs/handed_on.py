"""What a step computes, and the next one takes in: a state that is carried, or made anew.

A sampler draws noise and goes on from what its last step gave; of a pair it looks as if a part of
the second step had run early. Where nothing at all ran between the two steps, none did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import GraphName, count, say
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.runs.causes.stated import as_one
from xlagraph.runs.graphs.sketch import without_layout
from xlagraph.runs.model import OFTEN, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import CauseGroup
    from xlagraph.runs.pairs.outcome import Outcome


def with_handed_on(outcome: Outcome, first: CapturedGraph, graph: CapturedGraph) -> Outcome:
    """The outcome, with what the step right before left told as expected, behind what is not.

    `first`: what `graph` is compared with.
    """
    if not outcome.proved or not _is_next(first, graph) or not _takes_in_its_outputs(first, graph):
        return outcome
    names = GraphName(first.letter), GraphName(graph.letter)
    causes = [
        replace(
            cause,
            title=say(
                names[0],
                " computes what comes into ",
                names[1],
                " as an input: the step before left it",
                at(cause.lines),
            ),
            expected=True,
        )
        if cause.kind is EARLY_EXECUTION
        else cause
        for cause in outcome.causes
    ]
    return replace(outcome, causes=tuple(sorted(causes, key=lambda cause: cause.expected)))


def _is_next(first: CapturedGraph, graph: CapturedGraph) -> bool:
    """Whether both are whole steps of one place, and nothing ran between them: no read cut one."""
    one, two = first.sync, graph.sync
    return (
        one is not None
        and two is not None
        and first.process is graph.process
        and (one.kind, one.call_site) == (two.kind, two.call_site)
        and one.kind == "step"
        and two.index == one.index + 1
    )


def _takes_in_its_outputs(first: CapturedGraph, graph: CapturedGraph) -> bool:
    """Whether all inputs that a graph has and the first has not may be outputs of that."""
    new = _inputs(graph) - _inputs(first)
    given = Counter(shape for shape, _ in first.sketch.interface.outputs)
    return bool(new) and new <= given


def _inputs(graph: CapturedGraph) -> Counter[str]:
    return Counter(without_layout(shape) for _, shape in graph.sketch.interface.inputs)


def with_made_anew(groups: Sequence[CauseGroup]) -> tuple[CauseGroup, ...]:
    """The groups; first values of tensors with the new sizes for which they are made.

    Where a model grows, what is made for it (zeros, a buffer) is a constant of the step that it is
    made in and an input of the next one: each size compiles twice, for one reason.
    """
    found = list(groups)
    for size in [one for one in groups if one.kind is INPUT_SHAPE and not one.expected]:
        anew = [one for one in found if _is_behind(one, size)]
        if anew:
            graphs = count(sum(one.compiles for one in anew), "graph")
            told = say(
                f"{graphs} more in the step behind each new size: what is made for it there",
                at((anew[0].place.line,)) if anew[0].place.line else "",
                " is an input from then on (sync once it is made)",
            )
            whole = as_one([size, *anew])
            whole = replace(whole, follows=(told, *whole.follows))
            found = [whole if one is size else one for one in found if one not in anew]
    return ranked(found)


def _is_behind(group: CauseGroup, size: CauseGroup) -> bool:
    """Whether all graphs of a group take in first values, in steps right behind a new size."""
    is_anew = group.kind is INITIAL_STATE and not group.expected and group.compiles >= OFTEN
    return is_anew and {step - 1 for step in group.steps} <= {*size.steps}
