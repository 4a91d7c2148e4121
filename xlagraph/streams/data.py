"""An analysis as plain data: versioned, described in docs/json.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from xlagraph.message import words
from xlagraph.streams import wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.streams.drift import Difference, Drift, Work
    from xlagraph.streams.model import Access, Analysis, Finding, Stream

SCHEMA_VERSION = 1

Json = dict[str, object]


def analysis_json(analysis: Analysis, drift: Drift) -> Json:
    """The analysis as plain data."""
    coverage = asdict(analysis.coverage)
    coverage["unseen"] = [
        {"what": what, "times": times if times >= 0 else None}
        for what, times in analysis.coverage.unseen
    ]
    return {
        "schema": SCHEMA_VERSION,
        "kind": "streams",
        "log": analysis.name,
        "verdict": str(analysis.verdict),
        "summary": words(wording.verdict(analysis)),
        "findings": [_finding(one, analysis.streams) for one in analysis.findings],
        "streams": [
            {**asdict(stream), "name": wording.stream_name(stream)} for stream in analysis.streams
        ],
        "drift": {
            "steps": drift.steps,
            "alike": [list(numbers) for numbers in drift.alike],
            "differences": [_difference(one) for one in drift.differences],
        },
        "coverage": coverage,
    }


def _finding(finding: Finding, streams: Sequence[Stream]) -> Json:
    proof = finding.proof
    return {
        "number": finding.number,
        "kind": str(finding.kind),
        "state": str(finding.state),
        "title": words(wording.title(finding, streams)),
        "count": finding.count,
        "earlier": [_access(one) for one in finding.earlier],
        "later": None if finding.later is None else _access(finding.later),
        "missing": words(wording.missing(finding, streams)),
        "edges": [
            {
                "action": edge.action,
                "source": edge.source,
                "target": edge.target,
                "before_line": edge.line,
                "site": edge.site,
            }
            for edge in finding.edges
        ],
        "fix": words(wording.fix(finding, streams)),
        "bucket": None if finding.bucket is None else asdict(finding.bucket),
        "lifetime": None if finding.lifetime is None else asdict(finding.lifetime),
        "backward": {"stream": finding.backward_stream, "site": finding.backward_site}
        if finding.backward_stream
        else None,
        "doubt": finding.doubt,
        "same_as": finding.same_as or None,
        "proved": proof is not None and proof.proved,
        "proof": None if proof is None else asdict(proof),
    }


def _access(access: Access) -> Json:
    return {**asdict(access), "data": asdict(access.data)}


def _difference(one: Difference) -> Json:
    return {
        "before": one.before,
        "after": one.after,
        "change": str(one.change),
        "at": one.at,
        "text": words(wording.difference_text(one)),
        "old": [_work(work) for work in one.old],
        "new": [_work(work) for work in one.new],
        "context": [_work(work) for work in one.context],
        "moved": one.moved,
    }


def _work(work: Work) -> Json:
    return {**work._asdict(), "waits": list(work.waits)}
