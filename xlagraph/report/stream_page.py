"""The page of a stream log: verdict, picture, findings, steps, streams, coverage."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from xlagraph.message import Message, say, spans, words
from xlagraph.report.model import Fact, ReportOptions
from xlagraph.report.names import PlainNames
from xlagraph.report.redact import RedactedNames
from xlagraph.report.stream_lanes import lanes_data
from xlagraph.report.stream_model import (
    AccessLine,
    BucketPart,
    FindingCard,
    StepDifference,
    StepRow,
    StreamReport,
    StreamRow,
)
from xlagraph.streams import wording
from xlagraph.streams.kinds import KINDS
from xlagraph.streams.model import State, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.report.model import Spans
    from xlagraph.report.names import Names
    from xlagraph.report.stream_lanes import Kept
    from xlagraph.streams.drift import Difference, Drift, Work
    from xlagraph.streams.lanes import Lanes, Part
    from xlagraph.streams.model import Access, Analysis, Finding

PAGE_BYTES = 90_000
"""What the page takes without picture and findings: template, style, scripts."""

MOST_FINDINGS = 200
MOST_ACCESSES = 100
MOST_PARTS = 400
MOST_ROWS = 40
"""What is shown of each finding, bucket and step at most; the rest is counted."""

COLOURS = 10
MOODS = {Verdict.FOUND: "alarm", Verdict.NONE_FOUND: "calm", Verdict.UNKNOWN: "unsure"}


def stream_report(
    analysis: Analysis, lanes: Lanes, drift: Drift, options: ReportOptions | None = None
) -> StreamReport:
    """The page of a log that was analysed."""
    options = options or ReportOptions()
    names: Names = RedactedNames() if options.redact else PlainNames(_files(lanes))
    left = max(options.max_bytes - PAGE_BYTES, options.max_bytes // 4)
    data, kept = lanes_data(lanes, analysis, names, left)
    page = _Page(analysis, lanes, names, kept)
    cuts = []
    if total := len(lanes.works.lines) - kept.size:
        cuts.append(f"{total:,} operators of the picture, those far from the findings")
    if len(analysis.findings) > MOST_FINDINGS:
        cuts.append(f"{len(analysis.findings) - MOST_FINDINGS:,} findings")
    name = names.input(PurePath(analysis.name).name or analysis.name)
    return StreamReport(
        title=name,
        subtitle=f"Order of streams in {name}",
        verdict=page.said(wording.verdict(analysis)),
        mood=MOODS[analysis.verdict],
        facts=_facts(analysis),
        findings=tuple(page.card(one) for one in analysis.findings[:MOST_FINDINGS]),
        steps=() if drift.differences else tuple(map(page.said, wording.drift_lines(drift))),
        differences=tuple(page.difference(one) for one in drift.differences),
        streams=page.streams(),
        coverage=tuple(map(page.said, wording.coverage_lines(analysis.coverage))),
        blobs={"lanes": data.packed},
        cuts=tuple(cuts),
        redacted=options.redact,
    )


def _files(lanes: Lanes) -> Iterator[str]:
    """The source files that sites of the log are in."""
    numbers = {*lanes.works.sites, *lanes.works.forward_sites}
    for number in numbers - {0}:
        yield lanes.texts[number].partition(" ")[0].rpartition(":")[0]


def _facts(analysis: Analysis) -> tuple[Fact, ...]:
    coverage = analysis.coverage
    found = sum(one.state is State.FOUND and not one.same_as for one in analysis.findings)
    facts = [
        Fact(f"{found:,}", "found"),
        Fact(f"{coverage.operators:,}", "operators"),
        Fact(f"{coverage.streams:,}", "streams"),
        Fact(f"{coverage.threads:,}", "host threads"),
    ]
    if coverage.steps:
        facts.append(Fact(f"{coverage.steps:,}", "steps"))
    if coverage.unseen:
        facts.append(Fact(f"{len(coverage.unseen):,}", "kinds of things not seen"))
    return tuple(facts)


class _Page:
    """Words for what a page shows, under its names."""

    def __init__(self, analysis: Analysis, lanes: Lanes, names: Names, kept: Kept):
        self._analysis = analysis
        self._lanes = lanes
        self._names = names
        self._kept = kept
        self._kinds = {kind.id: kind for kind in KINDS}

    def said(self, message: Message) -> Spans:
        """A message in the page's words."""
        return spans(message, self._names)

    def card(self, finding: Finding) -> FindingCard:
        """A finding."""
        streams, life, proof = self._analysis.streams, finding.lifetime, finding.proof
        others = tuple(
            one.number for one in self._analysis.findings if one.same_as == finding.number
        )
        proof_text = wording.proof_text(finding) if proof else say()
        return FindingCard(
            finding.number,
            self._kinds[str(finding.kind)],
            str(finding.state),
            self._sentence(wording.title(finding, streams), end=""),
            finding.count,
            tuple(self._access(one) for one in finding.earlier[:MOST_ACCESSES]),
            self._access(finding.later) if finding.later else None,
            self._sentence(wording.lifetime_text(life, streams)) if life else (),
            self._sentence(wording.doubt_text(finding)) if finding.doubt else (),
            self.said(wording.missing(finding, streams)),
            self.said(wording.fix(finding, streams)),
            self._sentence(proof_text) if proof else (),
            proof is not None and proof.proved,
            finding.same_as,
            others,
            tuple(self._bucket(finding)),
            wording.size(finding.bucket.data.size) if finding.bucket else "",
        )

    def streams(self) -> tuple[StreamRow, ...]:
        """All streams, by first use."""
        counts = [0] * (len(self._analysis.streams) + 1)
        for number in self._lanes.works.streams:
            counts[number] += 1
        return tuple(
            StreamRow(
                wording.stream_name(one),
                (one.number - 1) % COLOURS,
                counts[one.number],
                self.said(wording.site(one.site)) if one.site else (),
            )
            for one in self._analysis.streams
        )

    def difference(self, one: Difference) -> StepDifference:
        """Two steps beside each other, where they first differ."""
        rows = [self._row("", work, work) for work in one.context]
        if len(one.old) == len(one.new) == 1 and one.old[0].operator == one.new[0].operator:
            rows.append(self._row("changed", one.old[0], one.new[0]))
        else:
            rows += [self._row("removed", work, None) for work in one.old]
            rows += [self._row("added", None, work) for work in one.new]
        shown = rows[:MOST_ROWS]
        text = self.said(wording.difference_text(one))
        column = self._lanes.steps[one.after - 1] + one.at
        lines = self._lanes.works.lines
        address = self._address(lines[column]) if column < len(lines) else ""
        left = len(rows) - len(shown)
        return StepDifference(one.before, one.after, text, tuple(shown), left, address)

    def _row(self, state: str, old: Work | None, new: Work | None) -> StepRow:
        return StepRow(state, *self._side(old), *self._side(new))

    def _side(self, work: Work | None) -> tuple[Spans, str]:
        if work is None:
            return (), ""
        waits = f", after {wording.roles(work)}" if work.waits else ""
        return self.said(wording.work_name(work)), wording.role(work.stream) + waits

    def _access(self, access: Access) -> AccessLine:
        text = self.said(wording.access_text(access, self._analysis.streams))
        return AccessLine(text, (access.stream - 1) % COLOURS, self._address(access.line))

    def _address(self, line: int) -> str:
        return f"#/op/{line}" if self._kept.holds(self._lanes.place(line)) else ""

    def _bucket(self, finding: Finding) -> Iterator[BucketPart]:
        missed = {access.line for access in finding.earlier}
        parts = self._lanes.parts.get(finding.number, ())
        for part in parts[:MOST_PARTS]:
            yield self._part(part, is_missed=part.line in missed)

    def _part(self, part: Part, *, is_missed: bool) -> BucketPart:
        span = f"bytes {part.offset:,} to {part.offset + part.size - 1:,}"
        if part.column < 0:
            return BucketPart(part.size, title=f"{span}: not written in this log")
        works, texts = self._lanes.works, self._lanes.texts
        stream = works.streams[part.column]
        parameter = texts[works.parameters[part.column]]
        name = words(wording.parameter(parameter), self._names) if parameter else ""
        by = words(wording.operator(texts[works.operators[part.column]]), self._names)
        where = wording.stream_name(self._analysis.stream(stream))
        title = f"{span}: {by} on {where}{f' for {name}' if name else ''}"
        title += ", not waited for" if is_missed else ""
        colour = (stream - 1) % COLOURS
        label = name or wording.size(part.size)
        return BucketPart(part.size, colour, label, title, self._address(part.line), is_missed)

    def _sentence(self, message: Message, end: str = ".") -> Spans:
        text = words(message, self._names)
        return self.said(say(message.sentence, "" if text.endswith(end) else end))
