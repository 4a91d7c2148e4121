"""Reasons as JSON: what, where, what to change, and what supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import words
from xlagraph.terminal.places import line_json, where_json

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause, Evidence
    from xlagraph.runs.model import CauseGroup

    Json = dict[str, object]


def reason_json(one: Cause | CauseGroup) -> Json:
    """What is said of a cause wherever it stands: of two graphs, of a run, between ranks."""
    return {
        "kind": one.kind.id,
        "what": words(one.title),
        "where": where_json(one.place),
        "fix": words(one.fix),
        "in_short": {"what": words(one.in_short), "fix": words(one.fix_in_short)},
        "effect": words(one.effect),
        "proved": one.proved,
    }


def evidence_json(evidence: Evidence) -> Json:
    """A line of evidence, without the instructions that it cites."""
    return {
        "text": words(evidence.text),
        "sources": [str(line) for line in evidence.sources],
        "places": [line_json(line) for line in evidence.sources],
    }
