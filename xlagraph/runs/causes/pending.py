"""Work that stays pending while values are read: each read computes more than the one before.

A value that Python reads is computed, and so is what it needs; all else that is pending stays so
until the step ends. A loop that updates a tensor and reads another in every turn, without a sync,
has a graph of its own for each number of turns, and so has what ends the step. Where that number
is the same in every step these graphs compile once; where it changes they keep coming. So they do
in a program that never ends a step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, count, say
from xlagraph.runs.causes.drawn import own_frames
from xlagraph.runs.causes.growth import READING_FIX, READING_SHORT
from xlagraph.runs.graphs.context import own_frame
from xlagraph.runs.kinds import GROWING_GRAPH
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.turns import CallPlace, Turns

MANY = 3
"""So many reads in a row, each as much larger than the one before, are growth."""
ENDLESS = 6
"""So many in the only step of a program are no set-up: its loop has no sync."""
PENDING_FIX = say(
    "Call torch_xla.sync() in each turn of the loop that reads, before or behind the read: what is "
    "pending is computed once then, and every turn has the same graph. Or keep on the host what "
    "the loop updates."
)


@dataclass(frozen=True, slots=True, eq=False)
class PendingWork:
    """Graphs of reads at one place, and of the ends of those steps."""

    first: str
    """Digest of the smallest: without growth it would be the only one."""
    graphs: frozenset[str]
    """Digests of the others."""
    line: SourceLine | None
    """Where the program reads."""
    more: int
    """Instructions that each turn adds; 0 if that differs."""


def pending_work(graphs: Sequence[CapturedGraph], turns: Turns) -> list[PendingWork]:
    """The places of a run whose reads grow within a step, and in later steps still do."""
    places: defaultdict[CallPlace, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.sync and graph.sync.kind == "value":
            places[call_place(graph.process, graph.sync)].append(graph)
    return [work for reads in places.values() for work in _pending_work(reads, graphs, turns)]


def _pending_work(
    reads: Sequence[CapturedGraph], graphs: Sequence[CapturedGraph], turns: Turns
) -> Iterator[PendingWork]:
    ordered = sorted(reads, key=lambda graph: graph.sync.index if graph.sync else 0)
    sync = ordered[0].sync
    if sync and _never_ends(ordered):
        begun, *rest = (graph.record.digest for graph in ordered)
        yield PendingWork(begun, frozenset(rest), own_frame(sync.call_site), 0)
        return
    steps = _steps(ordered, turns)
    more = _growth(steps)
    if not more or not sync:
        return
    first = min(ordered, key=_size)
    grown = {k + turn for k, step in enumerate(steps) if step == more for turn in (0, 1)}
    alike = [
        graph
        for k, graph in enumerate(ordered)
        if k in grown or (_size(graph) - _size(first)) % more == 0
    ]
    if len({graph.step for graph in alike}) == 1:
        return
    found = {graph.record.digest for graph in (*alike, *_ends(alike, graphs, more))}
    digest = first.record.digest
    yield PendingWork(digest, frozenset(found - {digest}), own_frame(sync.call_site), more)


def _never_ends(reads: Sequence[CapturedGraph]) -> bool:
    """Whether a program that takes one step only reads more than a few times in it, ever more."""
    syncs = reads[0].process.syncs
    is_one_step = {s.step for s in syncs} == {reads[0].step}
    sizes = [_size(graph) for graph in reads]
    is_rising = all(before < after for before, after in pairwise(sizes))
    return is_one_step and is_rising and len(reads) >= ENDLESS


def _steps(reads: Sequence[CapturedGraph], turns: Turns) -> list[int]:
    """By how many instructions each read is larger than the one before; 0 of another step's."""
    return [
        _size(after) - _size(before)
        if before.step == after.step
        and (before.record.digest, after.record.digest) in turns.in_a_row
        else 0
        for before, after in pairwise(reads)
    ]


def _growth(steps: Sequence[int]) -> int:
    """The instructions by which reads of one step grow, one after the other; 0 if they do not."""
    runs = ((step, len(list(members))) for step, members in groupby(steps))
    return next((step for step, length in runs if step > 0 and length >= MANY), 0)


def _ends(
    reads: Sequence[CapturedGraph], graphs: Sequence[CapturedGraph], more: int
) -> Iterator[CapturedGraph]:
    """Graphs that ended steps with such reads, where these lie as far apart; but the first."""
    process, site = reads[0].process, reads[0].site
    steps = {s.step for s in process.syncs if s.kind == "value" and s.call_site == site}
    places: defaultdict[object, list[CapturedGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.process is process and graph.sync and graph.sync.ends_step:
            places[graph.sync.call_site].append(graph)
    for members in places.values():
        is_end = all(graph.step in steps for graph in members)
        if is_end and len(members) >= MANY and len({_size(g) % more for g in members}) == 1:
            yield from members[1:]


def left_of_turns(
    work: PendingWork, nodes: Sequence[GraphNode], program: ProgramText
) -> frozenset[str]:
    """Digests of graphs at the ends of steps that differ in what the turns of the loop compute.

    They lie further apart than the reads where a backward pass goes through each turn.
    """
    loop = program.loop_in_step(work.line)
    causes = {
        node.digest: node.explanation.causes[0]
        for node in nodes
        if node.sync_kind != "value"
        and not node.warm_up
        and node.explanation
        and node.explanation.causes
    }
    return frozenset(
        digest
        for digest, cause in causes.items()
        if loop
        and cause.kind.is_piece
        and any(program.loop_in_step(line) == loop for line in _lines(cause))
    )


def _lines(cause: Cause) -> list[SourceLine]:
    """Where a cause stands, and what it says that values come from."""
    return [*own_frames(cause), *(p for p in cause.title.parts if isinstance(p, SourceLine))]


def _size(graph: CapturedGraph) -> int:
    return graph.sketch.instructions


@dataclass(frozen=True, slots=True)
class AsPending:
    """Says the cause of a single graph as the work that stays pending over the run."""

    work: PendingWork
    is_in_ends: bool = False
    """What ends the steps differs in the turns as well: a backward pass through all of them would
    be as long with a sync in each."""

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause of one of these graphs, of all of them."""
        where = at((self.work.line,) if self.work.line else ())
        ends = sum(1 for node in members if node.sync_kind != "value")
        rest = f"; {ends} of them are what was left as the step ended" if ends else ""
        more = count(self.work.more, "instruction")
        by_more = f", by {more} each time" if self.work.more else ""
        return replace(
            cause,
            kind=GROWING_GRAPH,
            title=say(
                "values are read again and again before the step ends",
                where,
                f", and what is pending grows from read to read{by_more}: "
                f"{count(len(members), 'graph')}, one for each number of reads{rest}",
            ),
            evidence=(
                Evidence(
                    say("from read to read the graph has the same instructions more")
                    if self.work.more
                    else say("each graph is larger than the one before"),
                    sources=(self.work.line,) if self.work.line else (),
                ),
            ),
            fix=READING_FIX if self.is_in_ends else PENDING_FIX,
            short=say("What is pending grows from read to read"),
            short_fix=READING_SHORT
            if self.is_in_ends
            else say("Call torch_xla.sync() in each turn of the loop that reads."),
            place=Place(self.work.line),
        )


def as_reads(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """Several values that were read early at one line, said together."""
    if len(members) == 1 or any(node.sync_kind != "value" for node in members):
        return cause
    return replace(
        cause,
        title=say(
            "values were read early",
            at(cause.lines),
            f": each of {count(len(members), 'graph')} is the part of a step that one of them "
            "needs",
        ),
    )
