"""Which earlier graph of a run a new one is explained by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.explain import explain_modules
from xlagraph.progress import silent
from xlagraph.runs.nearest import container, nearest
from xlagraph.runs.places import is_another_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Explanation
    from xlagraph.diff import Diff
    from xlagraph.progress import Track
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.design import Design
    from xlagraph.runs.history import History

UNLIKE = 0.3
"""Below this likeness a new module is a program of its own, not a variant of an earlier one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an earlier graph says about a new one."""

    number: int | None
    """The earlier graph's place among all; None where none is near enough."""
    why: str
    explanation: Explanation | None

    @property
    def diff(self) -> tuple[int, Diff] | None:
        """The earlier graph's number, and how the new one differs."""
        if self.number is None or self.explanation is None:
            return None
        return self.number, self.explanation.diff


def compare(
    graphs: Sequence[CapturedGraph], history: History, track: Track = silent
) -> list[Comparison]:
    """Each graph with the nearest of those before it; `track` is told how far it is."""
    tracked = track(graphs, "explaining graphs")
    return [_compare(graph, graphs[:k], history) for k, graph in enumerate(tracked)]


def compare_by_sort(
    graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison], design: Design
) -> list[Comparison]:
    """The comparisons, but within one process with the last graph of the same sort of step.

    Where that proves less, the nearest graph stays.
    """
    found = []
    for k, old in enumerate(comparisons):
        like = design.like(k)
        is_other = old.number is None or design.sort(old.number) != design.sort(k)
        if like is not None and is_other and not _is_of_another_rank(graphs, k, old.number):
            explanation = _explained(graphs[k], graphs, like)
            if explanation.proved or not (old.explanation and old.explanation.proved):
                old = Comparison(like, "the last graph of this sort of step", explanation)
        found.append(old)
    return found


def _is_of_another_rank(graphs: Sequence[CapturedGraph], number: int, other: int | None) -> bool:
    return other is not None and graphs[other].process is not graphs[number].process


def _compare(
    graph: CapturedGraph, earlier: Sequence[CapturedGraph], history: History
) -> Comparison:
    number, why = _compared_with(graph, earlier, history)
    if number is not None:
        return Comparison(number, why, _explained(graph, earlier, number))
    places = [k for k, other in enumerate(earlier) if _at_one_place(graph, other)]
    if places:  # however unlike: another type or size is everywhere; only a proof counts here
        explanation = _explained(graph, earlier, places[-1])
        if explanation.proved:
            why = "it ran at the same place, and what differs is explained"
            return Comparison(places[-1], why, explanation)
    return Comparison(None, "", None)


def _explained(graph: CapturedGraph, others: Sequence[CapturedGraph], number: int) -> Explanation:
    other = others[number]
    names = (other.letter, graph.letter)
    return explain_modules(other.module, graph.module, other.context, graph.context, names)


def _compared_with(
    graph: CapturedGraph, earlier: Sequence[CapturedGraph], history: History
) -> tuple[int | None, str]:
    """Which earlier graph a new one is explained by, and why that one."""
    for number, other in enumerate(earlier):
        if _ran_in_step(other, graph, history):
            return number, f"rank {other.process.record.rank} ran it in the same step"
    is_new_place = not any(_at_one_place(graph, other) for other in earlier)
    if is_new_place and is_another_part(graph, history):
        return None, ""
    if any(_were_read_in_turn(other, graph) for other in earlier):
        steps = {k: g.histogram for k, g in enumerate(earlier) if g.sync and g.sync.ends_step}
        within = container(graph.histogram, list(steps.values()))
        if within is not None:
            return list(steps)[within], "it contains what was read"
    found = nearest(graph.histogram, [g.histogram for g in earlier])
    if found and found[1] >= UNLIKE:
        why = f"{found[1]:.0%} of its instructions are of the same kinds and shapes"
        return found[0], why
    within = container(graph.histogram, [g.histogram for g in earlier])
    if within is not None:
        return within, "it contains nearly all of its instructions"
    return None, ""


def _ran_in_step(other: CapturedGraph, graph: CapturedGraph, history: History) -> bool:
    """Whether another rank ran `other` in the step in which this one ran `graph` first."""
    rank, sync = graph.process.record.rank, graph.sync
    if sync is None or not sync.ends_step or other.process.record.rank >= rank:
        return False
    ran = history.ranks.get((sync.step, other.record.digest), frozenset())
    return other.process.record.rank in ran


def _at_one_place(graph: CapturedGraph, other: CapturedGraph) -> bool:
    """Whether one line, in whichever process, made both compile, and by the same call."""
    x, y = graph.sync, other.sync
    return bool(x and y and (x.entry, x.call_site) == (y.entry, y.call_site))


def _were_read_in_turn(other: CapturedGraph, graph: CapturedGraph) -> bool:
    """Whether values were read one after the other: parts of a step, no variants of each other."""
    x, y = other.sync, graph.sync
    if x is None or y is None or other.process is not graph.process:
        return False
    return x.kind == y.kind == "value" and x.step == y.step
