"""The picture of a stream log as packed data: columns over its operators, and what joins them."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from xlagraph.message import spans, words
from xlagraph.report.model import deltas, said_json
from xlagraph.report.pack import pack
from xlagraph.streams import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from xlagraph.message import Message
    from xlagraph.report.model import Json
    from xlagraph.report.names import Names
    from xlagraph.streams.lanes import Lanes
    from xlagraph.streams.model import Analysis, Edge, Finding

SPARE = 0.9
"""Of the size that is left; operators differ in how well they pack."""


class Kept:
    """The stretches of operators that are on the page: columns from, to; in order."""

    def __init__(self, stretches: Sequence[tuple[int, int]]):
        self.stretches = stretches
        self._starts = [start for start, _ in stretches]
        self._offsets = [0, *accumulate(end - start for start, end in stretches)]

    @staticmethod
    def around(columns: Sequence[int], most: int, total: int) -> Kept:
        """At most so many operators, as many on both sides of each of some columns."""
        columns = columns[: max(1, most // 2)]
        low, high = 1, max(1, most)
        while low < high:
            middle = (low + high + 1) // 2
            if Kept(_stretches(columns, middle, total)).size <= most:
                low = middle
            else:
                high = middle - 1
        return Kept(_stretches(columns, low, total))

    @property
    def size(self) -> int:
        """How many operators are on the page."""
        return self._offsets[-1]

    def columns(self) -> Iterator[int]:
        """The operators that are on the page."""
        for start, end in self.stretches:
            yield from range(start, end)

    def place(self, place: int) -> int:
        """Where a place of the log is on the page."""
        k = bisect_right(self._starts, place) - 1
        if k < 0:
            return 0
        start, end = self.stretches[k]
        return self._offsets[k] + min(place, end) - start

    def is_near(self, place: int) -> bool:
        """Whether an operator beside a place is on the page."""
        k = bisect_right(self._starts, place) - 1
        return k >= 0 and place <= self.stretches[k][1]

    def holds(self, column: int) -> bool:
        """Whether an operator is on the page."""
        k = bisect_right(self._starts, column) - 1
        return k >= 0 and column < self.stretches[k][1]

    def gaps(self, total: int) -> list[list[int]]:
        """Places on the page where operators are left out, and how many."""
        found, at, before = [], 0, 0
        for start, end in (*self.stretches, (total, total)):
            if start > before:
                found.append([at, start - before])
            at, before = at + end - start, end
        return found


def _stretches(columns: Sequence[int], radius: int, total: int) -> list[tuple[int, int]]:
    """Stretches around columns, those that meet put together; the beginning without columns."""
    found: list[tuple[int, int]] = []
    for column in sorted(columns) or (0,):
        start, end = max(0, column - radius), min(total, column + radius)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


class LanesData:
    """The picture of a log, of which some operators may be left out."""

    def __init__(self, lanes: Lanes, analysis: Analysis, names: Names, kept: Kept):
        self._lanes = lanes
        self._analysis = analysis
        self._names = names
        self._kept = kept

    @cached_property
    def packed(self) -> str:
        """The data of the page."""
        return pack(self.to_json())

    def to_json(self) -> Json:
        """Plain values for the page."""
        works, columns = self._lanes.works, list(self._kept.columns())
        streams = self._analysis.streams
        counts = [0] * (len(streams) + 1)
        for stream in works.streams:
            counts[stream] += 1
        data: Json = {
            "streams": [
                {"name": wording.stream_name(one), "operators": counts[one.number]}
                for one in streams
            ],
            "lines": deltas(tuple(works.lines[k] for k in columns)),
            "stream": [works.streams[k] - 1 for k in columns],
            "thread": [works.threads[k] for k in columns],
            "read": [works.read[k] for k in columns],
            "written": [works.written[k] for k in columns],
            "gaps": self._kept.gaps(len(works.lines)),
        }
        for key, numbers, say in (
            ("operator", works.operators, wording.operator),
            ("node", works.nodes, wording.node),
            ("site", works.sites, wording.site),
            ("forward", works.forward_sites, wording.site),
            ("parameter", works.parameters, wording.parameter),
        ):
            named = self._named([numbers[k] for k in columns], say)
            data[key], data[f"{key}s"] = named
        return (
            data
            | self._joins()
            | {"findings": [self._finding(one) for one in self._analysis.findings]}
        )

    def _named(
        self, numbers: Sequence[int], say: Callable[[str], Message]
    ) -> tuple[list[int], list[str]]:
        """Texts in the words of the page, and their positions; position 0 is ``""``."""
        positions = {0: 0}
        found = [positions.setdefault(number, len(positions)) for number in numbers]
        texts = [self._lanes.texts[number] for number in positions]
        return found, [words(say(text), self._names) if text else "" for text in texts]

    def _joins(self) -> Json:
        lanes = self._lanes
        arrows = [
            (one.source, self._kept.place(one.begin), one.target, self._kept.place(one.end))
            for one in lanes.arrows
            if self._kept.is_near(one.end)
        ]
        return {
            "sources": [source - 1 for source, _, _, _ in arrows],
            "back": [end - begin for _, begin, _, end in arrows],
            "targets": [target - 1 for _, _, target, _ in arrows],
            "ends": deltas(tuple(end for _, _, _, end in arrows)),
            "hosts": [
                [self._kept.place(one.at), one.stream - 1, one.thread]
                for one in lanes.host_waits
                if self._kept.is_near(one.at)
            ],
            "steps": [
                [self._kept.place(at), number]
                for number, at in enumerate(lanes.steps, 1)
                if self._kept.is_near(at)
            ],
            "backwards": [
                [begin, end]
                for begin, end in (
                    (self._kept.place(a), self._kept.place(b)) for a, b in lanes.backwards
                )
                if begin < end
            ],
        }

    def _finding(self, finding: Finding) -> Json:
        lanes, later = self._lanes, finding.later
        known = lanes.known.get(later.line) if later else None
        life = finding.lifetime
        title = wording.title(finding, self._analysis.streams)
        return {
            "number": finding.number,
            "kind": str(finding.kind),
            "state": str(finding.state),
            "title": said_json(spans(title, self._names)),
            "earlier": [self._kept.place(lanes.place(one.line)) for one in finding.earlier],
            "later": self._kept.place(lanes.place(later.line)) if later else -1,
            "edges": [self._edge(edge, finding) for edge in finding.edges],
            "known": [self._kept.place(place) for place in known] if known else None,
            "freed": self._mark(life.freed_line, life.stream) if life else None,
            "taken": self._mark(_taken(finding), life.stream) if life else None,
            "backward": self._mark(finding.edges[0].line, finding.backward_stream)
            if finding.backward_stream
            else None,
        }

    def _mark(self, line: int, stream: int) -> list[int] | None:
        """A lane and a place on it, for what is no operator."""
        return [stream - 1, self._kept.place(self._lanes.place(line))] if line and stream else None

    def _edge(self, edge: Edge, finding: Finding) -> list[object]:
        """Lane and column of the access before, and lane and place where the order is missing."""
        streams = self._analysis.streams
        before = [one.line for one in finding.earlier if one.stream == edge.source]
        source = self._kept.place(self._lanes.place(max(before))) if before else -1
        text = wording.edge_text(edge, streams)
        return [edge.source - 1, source, edge.target - 1, *self._end(edge, finding), text]

    def _end(self, edge: Edge, finding: Finding) -> list[int]:
        """The place where the edge leads; for memory, its next use."""
        is_memory = edge.action == "record_stream"
        line = (_taken(finding) if is_memory else 0) or edge.line
        return [self._kept.place(self._lanes.place(line))]


def lanes_data(
    lanes: Lanes, analysis: Analysis, names: Names, max_bytes: int
) -> tuple[LanesData, Kept]:
    """The picture; where it would be too large, operators near the findings only."""
    total = len(lanes.works.lines)
    kept = Kept([(0, total)])
    data = LanesData(lanes, analysis, names, kept)
    places = _places(lanes, analysis.findings)
    while len(data.packed) > max_bytes and kept.size > 1:
        share = SPARE * max_bytes / len(data.packed)
        kept = Kept.around(places, max(1, int(kept.size * share)), total)
        data = LanesData(lanes, analysis, names, kept)
    return data, kept


def _taken(finding: Finding) -> int:
    """The line where memory is handed out again; for an operator's own result, the operator's."""
    line = finding.lifetime.taken_line if finding.lifetime else 0
    return min(line, finding.later.line) if finding.later else line


def _places(lanes: Lanes, findings: Iterable[Finding]) -> list[int]:
    found: set[int] = set()
    for finding in findings:
        lines = [one.line for one in finding.earlier]
        lines += [finding.later.line] if finding.later else []
        found.update(lanes.place(line) for line in lines)
    return sorted(found)
