"""What the earlier graphs of a run say about each new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.meant import changes_values
from xlagraph.runs.places import is_at_own_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.design import Design
    from xlagraph.runs.history import History
    from xlagraph.runs.outcome import Outcome
    from xlagraph.runs.pairing import Compared

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
            found.append(Comparison(one.number, one.why, outcome))
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
    its own is not compared with what runs elsewhere.
    """
    like: dict[int, int] = {}
    for k, old in enumerate(comparisons):
        is_variant = old.number is not None and design.sort(old.number) == design.sort(k)
        number = design.counterpart(k)
        if number is None or (is_variant and old.outcome and changes_values(old.outcome)):
            like_it = design.like(k)
            is_part = is_at_own_line(graphs[k], history) and not _is_at_place(graphs, k, like_it)
            number = None if is_variant or is_part else like_it
        if number not in (None, old.number) and not _is_of_another_rank(graphs, k, old.number):
            like[k] = number
    outcomes = explain([(number, k) for k, number in like.items()])
    found = list(comparisons)
    for k, number in like.items():
        old, outcome = comparisons[k], outcomes[number, k]
        if outcome.proved or not (old.outcome and old.outcome.proved):
            found[k] = Comparison(number, "the last graph of this sort of step", outcome)
    return found


def _is_at_place(graphs: Sequence[CapturedGraph], number: int, other: int | None) -> bool:
    """Whether both compiled first at one place of the program."""
    one, two = graphs[number].sync, graphs[other].sync if other is not None else None
    return one is not None and two is not None and one.call_site == two.call_site


def _is_of_another_rank(graphs: Sequence[CapturedGraph], number: int, other: int | None) -> bool:
    return other is not None and graphs[other].process is not graphs[number].process
