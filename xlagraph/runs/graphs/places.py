"""Whether a graph is the first at its place in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.steps.history import History


def begins_something(graph: CapturedGraph, history: History) -> bool:
    """Whether a graph unlike all before it is the first at its place, or one turn behind it.

    Where a known graph ran before, or one from before the capture, it begins nothing.
    """
    sync = graph.sync
    if sync is None or sync.kind == "value":
        return sync is None or is_another_part(graph, history)
    return is_first(graph, history) or is_second(graph, history)


def is_first(graph: CapturedGraph, history: History) -> bool:
    """Whether nothing had run at its place before."""
    return graph.sync is not None and history.turns.number(graph.process, graph.sync) == 0


def is_second(graph: CapturedGraph, history: History) -> bool:
    """Whether one graph had run at its place before, once, as it compiled."""
    if graph.sync is None or history.turns.number(graph.process, graph.sync) != 1:
        return False
    return history.turns.first(graph.process, graph.sync).outcome == "compile"


def is_another_part(graph: CapturedGraph, history: History) -> bool:
    """Whether a step or a read made it that is the first at its place and cuts no step."""
    sync = graph.sync
    if sync is None or not (sync.ends_step or sync.kind == "value"):
        return False
    return history.begins_another_part(graph.process, sync)


def is_at_own_line(graph: CapturedGraph, history: History) -> bool:
    """Whether the steps of its place are a part of the program with a sync line of its own."""
    sync = graph.sync
    if sync is None or not sync.ends_step:
        return False
    return history.has_own_line(graph.process, history.turns.first(graph.process, sync))


def begins_reading(graph: CapturedGraph, history: History) -> bool:
    """Whether a value was read in a step after the first, at a line that read none before it."""
    sync = graph.sync
    if sync is None or sync.kind != "value" or sync.step <= history.first_step:
        return False
    return history.turns.first(graph.process, sync).step == sync.step
