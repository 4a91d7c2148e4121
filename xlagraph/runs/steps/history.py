"""What the syncs of a run say about its graphs, gathered in one pass over them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from xlagraph.run.records import EARLIER_COMPILES
from xlagraph.runs.steps.leading import leading
from xlagraph.runs.steps.turns import Turns, call_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import Frame, SyncRecord
    from xlagraph.runs.steps.turns import CallPlace

    Sites = Sequence[tuple[Frame, ...]]

MAIN = 0.25
"""A call site is a training step's if its steps hold this part of the work that the one with
the most work does: one sync after the loop, or setting up layer by layer, is not."""
LITTLE = 0.25
"""A site's first sync is no step if it held less than this part of the work of the second."""
WHOLE = 0.5
"""A site's first sync ends a step if it held this part of the work of another; where a loop
begins with the sync (as loaders do), nothing or little was pending the first time."""
BEGINS = "compile_begin"
"""What a step runs as it begins (`torch_xla.step`) is no part of it."""
BEGINNING = 8
"""Among so many: later stages of a program may train far more."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Costs of graphs, who ran what when, and where training begins."""

    turns: Turns
    """What ran at each place, and what that cost."""
    ranks: Mapping[tuple[int, str], frozenset[int]]
    """The ranks that ran a graph (digest) at the end of a step."""
    leading: Mapping[int, int]
    """The place of each rank, the one that is told of first."""
    loops: Mapping[str, tuple[tuple[Frame, ...] | None, ...]]
    """By process: the training's call sites; None for one that does not end its loop's body."""
    came_again: Mapping[str, int]
    """By process: the index of the first sync that came back to a place of the training."""
    own_lines: Mapping[str, frozenset[int]]
    """By process: indices of syncs that begin a part of the program at a line of its own."""
    beside: Mapping[str, frozenset[int]]
    """By process: indices of syncs that cut no step, wherever they stand."""
    steps: int
    """How many there were, counted by the process with the most."""
    first_step: int
    """The first step of the training loop."""
    began_late: bool
    """Graphs were compiled before the capture began, and nothing is known of them."""

    def begins_another_part(self, process: Process, sync: SyncRecord) -> bool:
        """Whether a sync is the first at its place, and nothing of a training step is cut by it.

        A read or a step behind the end of every other step: an evaluation after the epoch. Or a
        step before any came again: the second of a program whose steps take turns. Or a step at a
        line of its own. Or what runs beside the steps: before one begins, or a read without which
        the step ends alike.
        """
        if sync.index != self.turns.first(process, sync).index:
            return False
        if self.has_own_line(process, sync) or sync.index in self.beside[process.file]:
            return True
        if sync.ends_step and sync.index < self.came_again.get(process.file, 0):
            return True
        loops = [site for site in self.loops.get(process.file, ()) if site != sync.call_site]
        return _is_behind_all(sync.call_site, loops)

    def has_own_line(self, process: Process, sync: SyncRecord) -> bool:
        """Whether a step is the first at its line, and those at other lines stay as they were."""
        return sync.index in self.own_lines.get(process.file, ())


def history_of(run: Run) -> History:
    """Reads every sync of a run once."""
    turns = Turns()
    ranks: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    empty: set[CallPlace] = set()
    last = -1
    for process in run.processes:
        for sync in process.syncs:
            if sync.step > last and sync.ends_step:
                last = sync.step
            place = call_place(process, sync)
            if sync.outcome != "empty":
                turns.add(process, sync)
            elif not turns.has(place):
                empty.add(place)
            if sync.ends_step:
                for digest in sync.graphs:
                    ranks[sync.step, digest].add(process.record.rank)
    training = {process: training_steps(process) for process in run.processes}
    return History(
        turns=turns,
        ranks={key: frozenset(found) for key, found in ranks.items()},
        leading=leading(run),
        loops={
            process.file: tuple(
                steps[0].call_site
                if call_place(process, steps[0]) not in empty and _is_whole(steps)
                else None
                for steps in loops
            )
            for process, loops in training.items()
        },
        came_again={
            process.file: min((steps[1].index for steps in loops if len(steps) > 1), default=0)
            for process, loops in training.items()
        },
        own_lines={process.file: frozenset(_own_lines(process)) for process in run.processes},
        beside={
            process.file: frozenset(_beside(process, _ends(process, loops, empty)))
            for process, loops in training.items()
        },
        steps=last + 1,
        first_step=min(
            (_first_of(steps).step for all_ in training.values() for steps in all_), default=0
        ),
        began_late=any(n.what == EARLIER_COMPILES for p in run.processes for n in p.notes),
    )


def training_steps(process: Process) -> list[list[SyncRecord]]:
    """The syncs that end a step of the training loop, those of each call site together."""
    sites: dict[tuple[Frame, ...], list[SyncRecord]] = {}
    for sync in process.syncs:
        if sync.ends_step and sync.outcome != "empty":
            sites.setdefault(sync.call_site, []).append(sync)
    work = {site: sum(map(_size, steps)) for site, steps in sites.items()}
    most = max(work.values(), default=0)
    return [steps for site, steps in sites.items() if work[site] >= MAIN * most]


def _own_lines(process: Process) -> Iterator[int]:
    """Syncs that compiled a step, the first at their lines, and cut no step of another place.

    Where a new sync cuts a step in two, the rest of it is another graph at the old place.
    """
    steps = [s for s in process.syncs if s.ends_step and s.outcome != "empty" and s.call_site]
    lines: set[Frame] = set()
    places: set[CallPlace] = set()
    for k, sync in enumerate(steps):
        if sync.call_site[0] not in lines and lines and sync.outcome == "compile":
            behind = (s for s in steps[k + 1 :] if call_place(process, s) in places)
            following = next(behind, None)
            if following and following.outcome == "hit":
                yield sync.index
        lines.add(sync.call_site[0])
        places.add(call_place(process, sync))


def _ends(process: Process, loops: Sequence[Sequence[SyncRecord]], empty: set[CallPlace]) -> Sites:
    """The call sites of the training, if each of them ends its loop's body; else none.

    A loop that begins with its sync has nothing, or little, to do the first time.
    """
    is_end = all(
        call_place(process, steps[0]) not in empty and _is_whole(steps, 2) for steps in loops
    )
    return [steps[0].call_site for steps in loops] if is_end else []


def _beside(process: Process, sites: Sites) -> Iterator[int]:
    """What ran before a step began, and the first reads of places where reading cuts no step.

    Behind such reads nothing is left for the step's end (an evaluation under a loader); or they
    stand behind the steps, the next of which ends in a graph that has ended others without them.

    `sites`: call sites of the training's steps, where those end there.
    """
    steps = [list(syncs) for _, syncs in groupby(process.syncs, key=lambda sync: sync.step)]
    whole = _whole_places(process, steps)
    seen: set[CallPlace] = set()
    for step in steps:
        yield from (s.index for s in step if s.outcome != "empty" and s.entry == BEGINS)
        is_all = step[-1].ends_step and step[-1].outcome == "empty"
        for read in _reads(step):
            place = call_place(process, read)
            if place in seen:
                continue
            seen.add(place)
            if is_all or (place in whole and _is_behind_all(read.call_site, sites)):
                yield read.index


def _whole_places(process: Process, steps: Sequence[Sequence[SyncRecord]]) -> set[CallPlace]:
    """The places of reads behind which a step ended in a graph that has ended others without."""
    read_in = [{call_place(process, read) for read in _reads(step)} for step in steps]
    ended_by = [step[-1].graphs if step[-1].ends_step else () for step in steps]
    ended: defaultdict[tuple[str, ...], list[set[CallPlace]]] = defaultdict(list)
    for places, graphs in zip(read_in, ended_by, strict=True):
        ended[graphs].append(places)
    return {
        place
        for places, graphs in zip(read_in, ended_by, strict=True)
        for place in places
        if graphs and any(place not in others for others in ended[graphs])
    }


def _reads(step: Iterable[SyncRecord]) -> list[SyncRecord]:
    return [sync for sync in step if sync.kind == "value" and sync.outcome != "empty"]


def _size(sync: SyncRecord) -> int:
    """The IR nodes of what a sync ran; 1 where they were not counted."""
    return max(sync.fingerprint, default=1)


def _first_of(steps: Sequence[SyncRecord]) -> SyncRecord:
    """The first step of a site: a loop that begins with its sync had next to nothing to do then."""
    first, *others = steps[:2]
    return others[0] if others and _size(first) < LITTLE * _size(others[0]) else first


def _is_whole(steps: Sequence[SyncRecord], among: int = BEGINNING) -> bool:
    """Whether the first of a site's syncs had a step's work behind it, as one of so many has.

    Of steps over batches of several lengths some are much larger than others.
    """
    return _size(steps[0]) >= WHOLE * min(map(_size, steps[1:among]), default=0)


def _of_same_calls(
    site: Sequence[Frame], loops: Iterable[tuple[Frame, ...] | None]
) -> list[tuple[Frame, ...] | None]:
    """The loops, of one that is called several times the call from which a site was reached.

    Stages call one function for their training: what else that does is behind its own loop. Where
    neither call leads to the site it is the first.
    """
    found: dict[Frame | None, tuple[Frame, ...] | None] = {}
    for loop in loops:
        line = loop[0] if loop else None
        if line not in found or _shared(site, loop) > _shared(site, found[line]):
            found[line] = loop
    return list(found.values())


def _shared(site: Sequence[Frame], other: Sequence[Frame] | None) -> int:
    """How many calls, from the outermost on, lead to both."""
    pairs = zip(reversed(site), reversed(other or ()), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_behind_all(site: Sequence[Frame], loops: Sequence[tuple[Frame, ...] | None]) -> bool:
    """Whether a call site stands behind the steps of all loops, each of which ends there."""
    return bool(loops) and all(
        loop and _is_behind(site, loop) for loop in _of_same_calls(site, loops)
    )


def _is_behind(site: Sequence[Frame], other: Sequence[Frame]) -> bool:
    """Whether a call site stands at a later line of the function in which the two part."""
    for mine, theirs in zip(reversed(site), reversed(other), strict=False):
        if mine != theirs:
            is_shared = (mine.file, mine.function) == (theirs.file, theirs.function)
            return is_shared and mine.line > theirs.line
    return False
