"""What the page of a stream log shows, as values: named, cut and redacted already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.kinds import Kind
    from xlagraph.report.model import Fact, Spans


@dataclass(frozen=True, slots=True)
class AccessLine:
    """An access of a finding."""

    text: Spans
    colour: int
    """Of its stream."""
    address: str
    """Of its operator within the page; ``""`` where that was left out."""


@dataclass(frozen=True, slots=True)
class BucketPart:
    """Bytes of a bucket in the colour of the stream that filled them."""

    size: int
    colour: int = -1
    """-1 where nothing in the log filled them."""
    label: str = ""
    title: str = ""
    address: str = ""
    missed: bool = False
    """Its stream was not waited for."""


@dataclass(frozen=True, slots=True)
class FindingCard:
    """A finding with both accesses, the missing edge, the fix and the proof."""

    number: int
    kind: Kind
    state: str
    """``found``, ``warning`` or ``unknown``."""
    title: Spans
    count: int
    earlier: tuple[AccessLine, ...]
    later: AccessLine | None
    memory: Spans
    doubt: Spans
    missing: Spans
    fix: Spans
    proof: Spans
    proved: bool
    same_as: int
    """The number of the finding whose fix removes this one too; 0 for none."""
    others: tuple[int, ...]
    """Numbers of findings that this one's fix removes too."""
    bucket: tuple[BucketPart, ...]
    bucket_size: str

    @property
    def anchor(self) -> str:
        """Where the card is on the page."""
        return f"finding-{self.number}"


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream of the log."""

    name: str
    colour: int
    operators: int
    site: Spans


@dataclass(frozen=True, slots=True)
class StepRow:
    """An operator of two steps that are compared."""

    state: str
    """``""`` for both, ``removed`` for the step before only, ``added``, ``changed``."""
    old: Spans
    old_stream: str
    new: Spans
    new_stream: str


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The first difference between two steps."""

    before: int
    after: int
    text: Spans
    rows: tuple[StepRow, ...]
    more: int
    """Operators that are left out."""
    address: str
    """Of the first operator of the later step that differs."""


@dataclass(frozen=True, slots=True)
class StreamReport:
    """A whole page."""

    title: str
    subtitle: str
    verdict: Spans
    mood: str
    """``alarm``, ``calm`` or ``unsure``."""
    facts: tuple[Fact, ...]
    findings: tuple[FindingCard, ...]
    steps: tuple[Spans, ...]
    """How the steps compare where there is nothing to show."""
    differences: tuple[StepDifference, ...]
    streams: tuple[StreamRow, ...]
    coverage: tuple[Spans, ...]
    blobs: Mapping[str, str]
    """Packed JSON: ``lanes``."""
    cuts: tuple[str, ...]
    """What was left out for size."""
    redacted: bool

    @property
    def headline(self) -> tuple[Spans, ...]:
        """What the command says when the page is written."""
        return (self.verdict,)
