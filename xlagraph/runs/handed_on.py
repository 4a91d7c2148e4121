"""What the first step of a place computes, and the next one takes in: a state that is carried.

A sampler draws noise and goes on from what its last step gave; of a pair it looks as if a part of
the second step had run early. Where nothing at all ran between the two steps, none did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import GraphName, say
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.runs.graphs.sketch import without_layout

if TYPE_CHECKING:
    from xlagraph.runs.graphs.captured import CapturedGraph
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
