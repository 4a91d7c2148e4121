"""Drift: what a step did on other streams, or waited for differently, than the step before.

A step's signature is the sequence of its operators: site, operator, stream, and the streams
waited for since the stream's last operator. Streams are renamed by first use within the step,
so that steps which take turns at a pool of streams are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.strings import StrEnum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.streams.format import Record
    from xlagraph.streams.log import Log

WINDOW = 200
"""Operators after the first difference within which the two steps are aligned."""


class Work(NamedTuple):
    """One operator of a step."""

    operator: str
    site: str
    node: str
    stream: int
    """By first use in the step, from 1; a device's default stream is 0 or below."""
    waits: tuple[int, ...]
    """The streams waited for just before, by the same numbers, each once."""


class Change(StrEnum):
    """How the first operators that differ do differ."""

    STREAM = "stream"
    """The same operator ran on another stream."""
    WAITS = "waits"
    """The same operator on the same stream waited for other streams."""
    OPERATORS = "operators"
    """Other operators ran."""


@dataclass(frozen=True, slots=True)
class Step:
    """The operators between two marks."""

    number: int
    """From 1, as the log has it."""
    line: int
    works: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a step and the one before it."""

    before: int
    after: int
    """Numbers of the steps."""
    change: Change
    at: int
    """Place in both signatures, from 0, of the first difference."""
    old: tuple[Work, ...]
    new: tuple[Work, ...]
    """What stands there: one operator each, or what only one step has."""
    context: tuple[Work, ...]
    """The operators before, which both have."""
    moved: int
    """Operators of the step that ran on another stream; 0 where other operators ran."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How the steps of a log compare."""

    steps: int
    alike: tuple[tuple[int, ...], ...]
    """Steps with equal signatures, by number; in the order of the first of each."""
    differences: tuple[Difference, ...]
    """One for each step that differs from the one before."""


def drift_of(log: Log) -> Drift:
    """Compares each step of a log with the one before it; linear in the log's records.

    Raises:
        InputError: a line is not a record of format v1.
    """
    groups: dict[tuple[Work, ...], list[int]] = {}
    differences: list[Difference] = []
    before: Step | None = None
    with log.explaining():
        for step in _steps(log):
            groups.setdefault(step.works, []).append(step.number)
            if before is not None and before.works != step.works:
                differences.append(compare(before, step))
            before = step
    alike = tuple(tuple(numbers) for numbers in groups.values())
    return Drift(before.number if before else 0, alike, tuple(differences))


def compare(before: Step, after: Step) -> Difference:
    """The first difference between two steps, which must differ."""
    old, new = before.works, after.works
    at = next(
        (k for k, (x, y) in enumerate(zip(old, new, strict=False)) if x != y),
        min(len(old), len(new)),
    )
    change, left, right = _change(old[at : at + WINDOW], new[at : at + WINDOW])
    moved = 0
    if change is not Change.OPERATORS and len(old) == len(new):
        moved = sum(1 for x, y in zip(old, new, strict=True) if x.stream != y.stream)
    context = old[max(0, at - 3) : at]
    return Difference(before.number, after.number, change, at, left, right, context, moved)


def _change(
    old: Sequence[Work], new: Sequence[Work]
) -> tuple[Change, tuple[Work, ...], tuple[Work, ...]]:
    if old and new and old[0][:3] == new[0][:3]:
        change = Change.STREAM if old[0].stream != new[0].stream else Change.WAITS
        return change, (old[0],), (new[0],)
    names_old, names_new = [work[:3] for work in old], [work[:3] for work in new]
    matcher = SequenceMatcher(None, names_old, names_new, autojunk=False)
    for tag, low, high, start, end in matcher.get_opcodes():
        if tag != "equal":
            return Change.OPERATORS, tuple(old[low:high]), tuple(new[start:end])
    return Change.OPERATORS, tuple(old), tuple(new)


def _steps(log: Log) -> Iterator[Step]:
    """The steps of a log: from each ``step`` mark to the next, or to the end."""
    reading: _Reading | None = None
    number = 0
    for line, record in log.records():
        if record["k"] == "mark" and record["name"] == "step":
            if reading is not None:
                yield reading.step()
            number += 1
            reading = _Reading(number, line)
        elif reading is not None:
            reading.take(record)
    if reading is not None and reading.works:
        yield reading.step()


class _Reading:
    """A step as it is read."""

    def __init__(self, number: int, line: int):
        self._number, self._line = number, line
        self.works: list[Work] = []
        self._names: dict[int, int] = {}
        self._events: dict[int, int] = {}
        self._waits: dict[int, dict[int, None]] = {}

    def take(self, record: Record) -> None:
        """Adds what a record says."""
        kind = record["k"]
        if kind == "op":
            raw = record["s"]
            waits = tuple(map(self._name, self._waits.pop(raw, ())))
            site = record.get("at") or record.get("fwd_at") or ""
            node = record.get("node") or ""
            self.works.append(Work(record["op"], site, node, self._name(raw), waits))
        elif kind == "record":
            self._events[record["e"]] = record["s"]
        elif kind == "wait":
            source = self._events.get(record["e"])
            if source is not None and source != record["s"]:
                self._waits.setdefault(record["s"], {})[source] = None

    def step(self) -> Step:
        """The step as it was read."""
        return Step(self._number, self._line, tuple(self.works))

    def _name(self, raw: int) -> int:
        if raw <= 0:
            return raw
        return self._names.setdefault(raw, len(self._names) + 1)
