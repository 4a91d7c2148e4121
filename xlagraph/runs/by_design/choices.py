"""One of two pieces in each step, as Python's coin falls: a choice, if both are compiled for good.

Self-conditioning, a penalty in half of the steps: a coin with two outcomes has two graphs, each of
which compiles once, and no more can come. What the steps of its place show tells it from coins with
many outcomes, and from what comes now and then:

* the graphs differ in a piece, proved, and there are two of them, but for state;
* no graph was new in the longer part of the run, and at the pace until then more would have come;
* both are known to have run several times since, and neither is the exception.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.runs.by_design.few_sizes import AGAIN, has_settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.pairs.outcome import Outcome

EXCEPTION = 1 / 4
"""What fewer of the steps than this have comes now and then: nobody chose between two."""
OUTCOMES = 2
"""A coin has so many."""
LASTING = 8
"""Steps at the place since the last graph was new, at least; and as many as until then."""


def is_one_of_two(number: int, comparisons: Sequence[Comparison], design: Design) -> bool:
    """Whether the steps at the place of a graph choose between two, one of which it is.

    The first one need not come again: there was no state yet.
    """
    turns = design.turns_of_sort(number).turns
    again = dict.fromkeys(graph for graph in turns[1:] if graph is not None)
    if number not in again:
        return False
    until = max(map(turns.index, again)) + 1
    since = turns[until:]
    begun = {graph: phase_of(graph, comparisons) for graph in again}
    ran = Counter(begun[graph] for graph in since if graph is not None)
    return (
        len({*begun.values()}) == len(ran) == OUTCOMES
        and min(ran.values()) >= max(AGAIN, EXCEPTION * ran.total())
        and len(since) >= max(LASTING, until)
        and has_settled(OUTCOMES, until, len(since))
    )


def phase_of(number: int, comparisons: Sequence[Comparison]) -> int:
    """The graph that began the phase: state that it makes comes into the next as an input."""
    found = comparisons[number]
    while found.number is not None and found.outcome is not None and brings_state(found.outcome):
        number = found.number
        found = comparisons[number]
    return number


def brings_state(outcome: Outcome) -> bool:
    """Whether state that the other graph makes comes in, and nothing else differs."""
    return bool(outcome.causes) and all(cause.expected for cause in outcome.causes)
