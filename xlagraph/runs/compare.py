"""What the earlier graphs of a run say about each new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.by_design.meant import changes_values
from xlagraph.runs.graphs.places import is_at_own_line, is_first
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.pairs.pairing import Compared
    from xlagraph.runs.steps.history import History
    from xlagraph.runs.steps.turns import CallPlace

    Pair = tuple[int, int]
    """Numbers of an earlier graph and of the one that it explains."""
    Explain = Callable[[Collection[Pair]], Mapping[Pair, Outcome]]
    """Explains pairs, in any order."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an earlier graph says about a new one."""

    number: int | None
    """The earlier graph's place among all; None where none is near enough."""
    why: str
    outcome: Outcome | None
    is_within: bool = True
    """Its own process ran that one too, and not another rank in its place."""


def compare(compared: Sequence[Compared], explain: Explain) -> list[Comparison]:
    """Each graph with the earlier one that was chosen for it."""
    pairs = [(one.number, k) for k, one in enumerate(compared) if one.number is not None]
    outcomes = explain(pairs)
    found = []
    for k, one in enumerate(compared):
        outcome = None if one.number is None else outcomes[one.number, k]
        if outcome is None or (one.only_if_proved and not outcome.proved):
            found.append(Comparison(None, "", None))
        else:
            found.append(Comparison(one.number, one.why, outcome, one.is_within))
    return found


def compare_by_sort(
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    history: History,
    explain: Explain,
) -> list[Comparison]:
    """The comparisons, but within one process with the last graph of the same sort of step.

    In a cycle it is the graph of the turn before, unless the nearest differs in a size or a number.
    Where that proves less, the nearest graph stays; what begins a part of the program at a line of
    its own is not compared with what runs elsewhere, unless that explains it.
    """
    like: dict[int, int] = {}
    for k, old in enumerate(comparisons):
        is_variant = old.number is not None and design.sort(old.number) == design.sort(k)
        number = design.counterpart(k)
        if number is None or (is_variant and old.outcome and changes_values(old.outcome)):
            number = None if is_variant else design.like(k)
            is_elsewhere = number is None or _place_of(graphs[number]) != _place_of(graphs[k])
            if is_elsewhere and is_at_own_line(graphs[k], history):
                number = None
        if number not in (None, old.number) and old.is_within:
            like[k] = number
    outcomes = explain([(number, k) for k, number in like.items()])
    found = list(comparisons)
    for k, number in like.items():
        old, outcome = comparisons[k], outcomes[number, k]
        if outcome.proved or not (old.outcome and old.outcome.proved):
            found[k] = Comparison(number, "the last graph of this sort of step", outcome)
            is_elsewhere = _place_of(graphs[number]) != _place_of(graphs[k])
            begins = is_first(graphs[k], history) and is_at_own_line(graphs[k], history)
            if begins and is_elsewhere and not outcome.proved:
                found[k] = Comparison(None, "", None)
    return found


def compare_further(
    graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison], explain: Explain
) -> list[Comparison]:
    """The comparisons, but those that prove nothing with an earlier graph of the place that does.

    Of a branch in the turns of a loop the nearest graph has as many, in other turns: each of the
    two has what the other lacks. What the nearest is proved to vary may lack neither, or else the
    first of all the graphs that vary each other. Pieces that come and go stay with the nearest,
    for what grows is seen from turn to turn.
    """
    found = list(comparisons)
    for choose in (_varied, _first):
        further: dict[int, int] = {}
        for k, old in enumerate(found):
            number = choose(found, k) if old.outcome and not old.outcome.proved else None
            if number is not None and _place_of(graphs[number]) == _place_of(graphs[k]):
                further[k] = number
        outcomes = explain([(number, k) for k, number in further.items()])
        for k, number in further.items():
            outcome = outcomes[number, k]
            if outcome.proved and not any(cause.kind.is_piece for cause in outcome.causes):
                found[k] = Comparison(number, "the graph that those near it vary", outcome)
    return found


def _varied(comparisons: Sequence[Comparison], k: int) -> int | None:
    """The graph that the nearest of the graphs before it is proved to vary, nothing if none is."""
    nearest = comparisons[k].number
    while nearest is not None:
        comparison = comparisons[nearest]
        if comparison.outcome and comparison.outcome.proved:
            return None if _is_expected(comparison) else comparison.number
        nearest = comparison.number
    return None


def _first(comparisons: Sequence[Comparison], k: int) -> int | None:
    """The first of the graphs that vary each other; what warm-up brings ends them."""
    first = comparisons[k].number
    while first is not None:
        comparison = comparisons[first]
        if comparison.number is None or _is_expected(comparison):
            break
        first = comparison.number
    return None if first == comparisons[k].number else first


def _is_expected(comparison: Comparison) -> bool:
    """Whether anything in it is warm-up: state comes in, whatever else differs by more."""
    causes = comparison.outcome.causes if comparison.outcome else ()
    return any(cause.expected for cause in causes)


def _place_of(graph: CapturedGraph) -> CallPlace | None:
    return call_place(graph.process, graph.sync) if graph.sync else None
