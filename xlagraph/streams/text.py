"""An analysis as text for a terminal, verdict first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import Message, say, words
from xlagraph.streams import wording
from xlagraph.streams.model import State
from xlagraph.terminal.style import labelled, paragraph

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.streams.drift import Drift
    from xlagraph.streams.model import Analysis, Finding

MAX_PARTS = 6
"""Accesses shown of one bucket; more are counted."""


def print_analysis(
    console: Console, analysis: Analysis, drift: Drift, *, full: bool = False
) -> None:
    """Prints verdict, findings, drift between steps, streams and coverage."""
    console.print(paragraph(wording.verdict(analysis), style="bold"))
    console.print()
    headline = wording.headline(analysis)
    for finding in analysis.findings:
        if finding.same_as and not full:
            continue
        _print_finding(console, finding, analysis, full=full, titled=finding is not headline)
    for line in wording.drift_lines(drift):
        console.print(labelled("Steps:", line, style="yellow" if drift.differences else ""))
    _print_streams(console, analysis)
    for line in wording.coverage_lines(analysis.coverage):
        console.print(labelled("Seen:", line, width=8))


def _print_finding(
    console: Console, finding: Finding, analysis: Analysis, *, full: bool, titled: bool
) -> None:
    streams = analysis.streams
    times = f"{finding.count:,} times" if finding.count > 1 else "once"
    proved = "proved" if finding.proof and finding.proof.proved else "not proved"
    state = {State.FOUND: proved, State.WARNING: "warning", State.UNKNOWN: "order unknown"}
    console.print(
        paragraph(
            f"{finding.number}. {finding.kind}  ({times}, {state[finding.state]})",
            style="bold cyan" if finding.state is State.FOUND else "yellow",
        )
    )
    if titled:
        console.print(paragraph(_sentence(wording.title(finding, streams)), 3))
    shown = finding.earlier if full else finding.earlier[:MAX_PARTS]
    for access in shown:
        console.print(labelled("-", wording.access_text(access, streams), 3))
    if len(shown) < len(finding.earlier):
        left = len(finding.earlier) - len(shown)
        console.print(labelled("-", f"and {left} more (--full shows all)", 3))
    if finding.later is not None:
        console.print(labelled("-", wording.access_text(finding.later, streams), 3))
    if finding.lifetime is not None:
        life = wording.lifetime_text(finding.lifetime, streams)
        console.print(labelled("Memory:", _sentence(life), 3, 8))
    if finding.doubt:
        console.print(labelled("Unknown:", _sentence(wording.doubt_text(finding)), 3))
    console.print(labelled("Missing:", wording.missing(finding, streams), 3, 8))
    console.print(labelled("Fix:", wording.fix(finding, streams), 3, 8))
    if finding.same_as:
        console.print(labelled("Proof:", f"gone with the fix of {finding.same_as}.", 3, 8))
    elif finding.proof is not None:
        console.print(labelled("Proof:", _sentence(wording.proof_text(finding)), 3, 8))
    others = [one.number for one in analysis.findings if one.same_as == finding.number]
    if others and not full:
        listed = f"{len(others)} more, which the same fix removes (--full shows them)."
        console.print(labelled("Also:", listed, 3, 8))
    console.print()


def _print_streams(console: Console, analysis: Analysis) -> None:
    for stream in analysis.streams:
        name = wording.stream_name(stream)
        at = say("first operator at ", wording.site(stream.site)) if stream.site else ""
        console.print(labelled("Stream:", say(name, ", ", at or "no operator seen"), width=8))


def _sentence(text: Message) -> Message:
    return say(text.sentence, "" if words(text).endswith(".") else ".")
