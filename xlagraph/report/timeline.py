"""All syncs of a run in columns; ranks that did the same share a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.figures import ranges
from xlagraph.report.run_model import RankRow, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.report.names import Names
    from xlagraph.run.reader import Process
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.model import RunExplanation

_OUTCOMES = {"compile": "c", "hit": "h", "empty": "e"}
WARM_UP, BY_DESIGN = "w", "d"


def timeline(explained: RunExplanation, names: Names) -> Timeline:
    """A column for each step, or as many as the busiest process needs for it."""
    processes = explained.run.processes
    width: dict[int, int] = {}
    for process in processes:
        for step, syncs in by_step(process.syncs).items():
            width[step] = max(width.get(step, 0), len(syncs))
    first: dict[int, int] = {}
    steps: list[int] = []
    for step in sorted(width):
        first[step] = len(steps)
        steps += [step] * width[step]
    positions = {node.digest: k for k, node in enumerate(explained.graphs)}
    expected = _expected(explained)
    rows = [_row(process, first, positions, expected, names) for process in processes]
    return Timeline(
        steps=tuple(steps),
        ranks=tuple(merged(rows, _ranks(processes))),
        letters=tuple(node.letter for node in explained.graphs),
    )


def merged(rows: Sequence[RankRow], ranks: Sequence[tuple[int, int]]) -> list[RankRow]:
    """Rows that are equal but for their times as one, with the longest times.

    `ranks`: of each row the rank, and how often it ran before.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for k, row in enumerate(rows):
        alike.setdefault((row.columns, row.outcomes, row.graphs, row.sites), []).append(k)
    found = []
    for members in alike.values():
        one = rows[members[0]]
        longest = map(max, zip(*(rows[k].milliseconds for k in members), strict=True))
        label = _label([ranks[k] for k in members])
        times = tuple(longest)
        found.append(RankRow(label, one.columns, one.outcomes, one.graphs, times, one.sites))
    return found


def _label(ranks: Sequence[tuple[int, int]]) -> str:
    """``rank 3``, ``ranks 0-63``, ``rank 0 (2)`` for its second process."""
    again = {before for _, before in ranks}
    parts = []
    for before in sorted(again):
        numbers = [rank for rank, k in ranks if k == before]
        text = ("rank " if len(numbers) == 1 else "ranks ") + ranges(numbers)
        parts.append(f"{text} ({before + 1})" if before else text)
    return ", ".join(parts)


def _ranks(processes: Sequence[Process]) -> list[tuple[int, int]]:
    """The rank of each process, and how many processes had it before."""
    seen: dict[int, int] = {}
    found = []
    for process in processes:
        rank = process.record.rank
        found.append((rank, seen.get(rank, 0)))
        seen[rank] = seen.get(rank, 0) + 1
    return found


def _expected(explained: RunExplanation) -> dict[str, tuple[str, bool]]:
    """Graphs whose compiles are no problem: as what, and whether all of them or the first alone."""
    problems = {d for group in explained.problems for d in group.graphs}
    return {
        digest: (BY_DESIGN if group.is_by_design else WARM_UP, digest not in problems)
        for group in explained.groups
        if group.expected
        for digest in group.graphs
    }


def by_step(syncs: Iterable[SyncRecord]) -> dict[int, list[SyncRecord]]:
    """The syncs of each step, in order."""
    found: dict[int, list[SyncRecord]] = {}
    for sync in syncs:
        found.setdefault(sync.step, []).append(sync)
    return found


def _row(
    process: Process,
    first: Mapping[int, int],
    positions: Mapping[str, int],
    expected: Mapping[str, tuple[str, bool]],
    names: Names,
) -> RankRow:
    columns, outcomes, graphs, milliseconds, sites = [], [], [], [], []
    compiled: set[str] = set()
    for step, syncs in sorted(by_step(process.syncs).items()):
        for k, sync in enumerate(syncs):
            digest = sync.graphs[-1] if sync.graphs else ""
            outcome = _OUTCOMES.get(sync.outcome, "u")
            seconds = sync.seconds
            if outcome == "c":
                seconds = sync.compile_seconds
                sites.append(site_of(sync, names))
                usual, always = expected.get(digest, (outcome, False))
                if always or digest not in compiled:
                    outcome = usual
                compiled.add(digest)
            columns.append(first[step] + k)
            outcomes.append(outcome)
            graphs.append(positions.get(digest, -1))
            milliseconds.append(round(seconds * 1000))
    return RankRow(
        "", tuple(columns), "".join(outcomes), tuple(graphs), tuple(milliseconds), tuple(sites)
    )


def site_of(sync: SyncRecord, names: Names) -> str:
    """The innermost line of the call, ``""`` if it is not known."""
    if not sync.call_site:
        return ""
    frame = sync.call_site[0]
    return f"{names.path(frame.file)}:{frame.line}"
