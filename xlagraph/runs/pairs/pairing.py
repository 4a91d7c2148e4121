"""Which earlier graph each graph of a run is explained by, and why that one.

Graphs are taken in order of appearance. What was seen is kept by what is asked about it, so that
a graph costs the same however many were before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.runs.graphs.nearest import Earlier, opcodes_of
from xlagraph.runs.graphs.places import is_another_part, is_at_own_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.run.records import Frame
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.graphs.sketch import Histogram
    from xlagraph.runs.steps.history import History

UNLIKE = 0.3
"""Below this likeness a new module is a program of its own, not a variant of an earlier one."""
SAME_PLACE = "it ran at the same place, and what differs is explained"


class Compared(NamedTuple):
    """What a graph is compared with."""

    number: int | None
    why: str
    is_within: bool
    """Its own process ran that one too, and not another rank in its place."""
    only_if_proved: bool = False
    """The comparison counts only if it ends in a proof."""


class Pairing:
    """The graphs so far; `compare` takes in the next one."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ran = _by_step(history.ranks)
        self._graphs: list[CapturedGraph] = []
        self._number: dict[str, int] = {}
        self._last_at: dict[tuple[str, tuple[Frame, ...]], int] = {}
        self._alike_at: dict[tuple[object, frozenset[tuple[str, int]]], int] = {}
        self._reads: set[tuple[str, int]] = set()
        self._all = Earlier()
        self._steps = Earlier()
        self._step_numbers: list[int] = []

    def compare(self, graph: CapturedGraph) -> Compared:
        """What the next graph is compared with."""
        histogram = graph.sketch.histogram()
        found = self._chosen(graph, histogram)
        self._add(graph, histogram)
        return found

    def _chosen(self, graph: CapturedGraph, histogram: Histogram) -> Compared:
        place = _place(graph)
        last = self._last_at.get(place) if place else None
        number = self._of_another_rank(graph)
        if number is not None:
            rank = self._graphs[number].process.record.rank
            return Compared(number, f"rank {rank} ran it in the same step", is_within=False)
        number, why = self._compared_with(graph, histogram, last)
        if number is not None:
            return Compared(number, why, self._is_within(graph, number))
        if last is not None:  # however unlike: another type or size is everywhere
            last = self._alike_at.get((place, _opcodes(histogram)), last)
            is_within = self._is_within(graph, last)
            return Compared(last, SAME_PLACE, is_within, only_if_proved=True)
        return Compared(None, "", is_within=True)

    def _is_within(self, graph: CapturedGraph, number: int) -> bool:
        """Whether the process of a graph ran an earlier one."""
        process, other = graph.process, self._graphs[number]
        return other.process is process or self._history.turns.ran(process, other.record.digest)

    def _add(self, graph: CapturedGraph, histogram: Histogram) -> None:
        number = len(self._graphs)
        self._graphs.append(graph)
        self._number[graph.record.digest] = number
        place = _place(graph)
        if place:
            self._last_at[place] = self._alike_at[place, _opcodes(histogram)] = number
        if graph.sync and graph.sync.kind == "value":
            self._reads.add((graph.process.file, graph.sync.step))
        if graph.sync and graph.sync.ends_step:
            self._steps.add(histogram)
            self._step_numbers.append(number)
        self._all.add(histogram)

    def _compared_with(
        self, graph: CapturedGraph, histogram: Histogram, last: int | None
    ) -> tuple[int | None, str]:
        if last is None and is_another_part(graph, self._history):
            return None, ""
        again = self._read_before(graph, histogram)
        if again is not None:
            return again, SAME_PLACE
        if self._was_read_in_turn(graph) and not self._continues(last, histogram):
            within = self._steps.container(histogram)
            if within is not None:
                return self._step_numbers[within], "it contains what was read"
        found = self._all.nearest(histogram)
        if found and found[1] >= UNLIKE:
            why = f"{found[1]:.0%} of its instructions are of the same kinds and shapes"
            return found[0], why
        if is_at_own_line(graph, self._history):
            return None, ""  # no part of a step: its steps cut none of another place
        within = self._all.container(histogram)
        if within is not None:
            return within, "it contains nearly all of its instructions"
        return None, ""

    def _of_another_rank(self, graph: CapturedGraph) -> int | None:
        """The first graph that a leading rank ran in the step in which this one ran first."""
        rank, sync = graph.process.record.rank, graph.sync
        leading = self._history.leading
        if sync is None or not sync.ends_step:
            return None
        found = []
        for digest, ranks in self._ran.get(sync.step, ()):
            number = self._number.get(digest)
            if number is not None:
                other = self._graphs[number].process.record.rank
                if leading[other] < leading[rank] and other in ranks:
                    found.append(number)
        return min(found, default=None)

    def _continues(self, last: int | None, histogram: Histogram) -> bool:
        """Whether a graph computes all that the last one at its place did, and more: a loop's turn.

        Values read one after the other at one line, as weights are, share no more than a part.
        """
        if last is None:
            return False
        earlier = self._graphs[last].sketch.histogram()
        return earlier <= histogram and earlier.total() < histogram.total()

    def _read_before(self, graph: CapturedGraph, histogram: Histogram) -> int | None:
        """What a line read before that is the same of other sizes; the last such graph.

        As an evaluation reads of batches in length buckets, or a step in which values are read.
        """
        place = _place(graph)
        if graph.sync is None or graph.sync.kind != "value":
            return None
        return self._alike_at.get((place, _opcodes(histogram)))

    def _was_read_in_turn(self, graph: CapturedGraph) -> bool:
        """Whether values were read one after the other: parts of a step, no variants."""
        sync = graph.sync
        if sync is None or sync.kind != "value":
            return False
        return (graph.process.file, sync.step) in self._reads


def _by_step(
    ranks: Mapping[tuple[int, str], frozenset[int]],
) -> dict[int, list[tuple[str, frozenset[int]]]]:
    found: dict[int, list[tuple[str, frozenset[int]]]] = {}
    for (step, digest), who in ranks.items():
        found.setdefault(step, []).append((digest, who))
    return found


def _opcodes(histogram: Histogram) -> frozenset[tuple[str, int]]:
    """How often each opcode stands, to look up."""
    return frozenset(opcodes_of(histogram).items())


def _place(graph: CapturedGraph) -> tuple[str, tuple[Frame, ...]] | None:
    """The line that made it compile, in whichever process, and the call."""
    return (graph.sync.entry, graph.sync.call_site) if graph.sync else None
