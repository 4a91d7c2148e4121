"""What the earlier graphs of a run say about each new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.design import Design
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
    explain: Explain,
) -> list[Comparison]:
    """The comparisons, but within one process with the last graph of the same sort of step.

    Where that proves less, the nearest graph stays.
    """
    like = {}
    for k, old in enumerate(comparisons):
        number = design.like(k)
        is_other = old.number is None or design.sort(old.number) != design.sort(k)
        if number is not None and is_other and not _is_of_another_rank(graphs, k, old.number):
            like[k] = number
    outcomes = explain([(number, k) for k, number in like.items()])
    found = list(comparisons)
    for k, number in like.items():
        old, outcome = comparisons[k], outcomes[number, k]
        if outcome.proved or not (old.outcome and old.outcome.proved):
            found[k] = Comparison(number, "the last graph of this sort of step", outcome)
    return found


def _is_of_another_rank(graphs: Sequence[CapturedGraph], number: int, other: int | None) -> bool:
    return other is not None and graphs[other].process is not graphs[number].process
