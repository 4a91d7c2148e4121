"""Which graphs of a run are warm-up: those that a program must compile once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.runs.pairing import is_another_part

if TYPE_CHECKING:
    from xlagraph.runs.history import History
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.outcome import Outcome
    from xlagraph.runs.pairing import RunGraph


def is_warm_up(
    graph: RunGraph, outcome: Outcome | None, other: GraphNode | None, history: History
) -> bool:
    """The first modules of a program, and the state that the first optimizer step brings.

    State that comes later than in the step after is no warm-up. Nor are graphs in which the
    ranks differ, or that a value read makes in later steps.
    """
    step = graph.step
    if outcome is None or other is None:
        return step <= history.first_step or _begins_something(graph, history)
    if other.rank != graph.process.record.rank and not outcome.same:
        return False
    if step <= history.first_step:
        return True
    expected = bool(outcome.causes) and all(c.expected for c in outcome.causes)
    return expected and other.warm_up and (step <= other.step + 1 or _is_second(graph, history))


def _begins_something(graph: RunGraph, history: History) -> bool:
    """Whether a graph unlike all before it is the first at its place, or one turn behind it.

    Where a known graph ran before, or one from before the capture, it begins nothing.
    """
    sync = graph.sync
    if sync is None or sync.kind == "value":
        return sync is None or is_another_part(graph, history)
    return is_first(graph, history) or _is_second(graph, history)


def is_first(graph: RunGraph, history: History) -> bool:
    """Whether nothing had run at its place before."""
    return graph.sync is not None and history.turns.number(graph.process, graph.sync) == 0


def _is_second(graph: RunGraph, history: History) -> bool:
    """Whether one graph had run at its place before, once, as it compiled."""
    if graph.sync is None or history.turns.number(graph.process, graph.sync) != 1:
        return False
    return history.turns.first(graph.process, graph.sync).outcome == "compile"
