"""Spans that are assigned to, of which both ends change: in some graphs only where they begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.shapes.filled_spans import is_of_span
from xlagraph.rules.shapes.sizes import PYTHON_INDEX
from xlagraph.runs.causes.growth import main_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import CauseGroup, GraphNode


def with_spans(groups: Sequence[CauseGroup], nodes: Sequence[GraphNode]) -> list[CauseGroup]:
    """The groups, each index at which values are written with what mends its length too.

    An index that is sent has the length of the span: where other graphs have another one, it is
    still a shape of the graph.
    """
    spans = {
        line: cause
        for node in nodes
        for cause in (node.explanation.causes if node.explanation else ())
        if is_of_span(cause) and (line := main_line(cause))
    }
    return [_with_spans(group, spans) for group in groups] if spans else list(groups)


def _with_spans(group: CauseGroup, spans: Mapping[SourceLine, Cause]) -> CauseGroup:
    def told(causes: Sequence[Cause]) -> tuple[Cause, ...]:
        return tuple(_as_span(cause, spans) for cause in causes)

    return replace(
        group,
        cause=_as_span(group.cause, spans) if group.cause else None,
        further=told(group.further),
        frequent=told(group.frequent),
        second=told(group.second),
    )


def _as_span(cause: Cause, spans: Mapping[SourceLine, Cause]) -> Cause:
    """A cause in the words of the span at its line, if it is an index there."""
    line = main_line(cause)
    span = spans.get(line) if line and cause.kind is PYTHON_INDEX else None
    if span is None:
        return cause
    return replace(cause, fix=span.fix, short=span.short, short_fix=span.short_fix)
