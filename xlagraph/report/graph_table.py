"""The graphs of a run, by cause, and its compiles: rows of tables that may be long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.figures import ranges
from xlagraph.message import duration, say, spans
from xlagraph.report.model import Bar, Insight
from xlagraph.report.run_model import CompileRow, GraphRow, GraphSection
from xlagraph.report.timeline import site_of
from xlagraph.report.wording import source_line
from xlagraph.runs.causes.taken import values_taken
from xlagraph.runs.steps.spent import Spent, span_of, spans_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.report.names import Names
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.model import CauseGroup, GraphNode, RunExplanation
    from xlagraph.runs.steps.spent import Span

COLOURS = 10
"""Colours of the graphs; letters tell apart what shares one."""
MAX_BARS = 40


def colour_of(position: int) -> int:
    """The colour of a graph by its position in the run."""
    return position % COLOURS


def graph_sections(
    explained: RunExplanation, names: Names, pairs: Mapping[str, str]
) -> tuple[GraphSection, ...]:
    """The graphs below their causes, in the order of the causes, each graph once."""
    places = {node.digest: k for k, node in enumerate(explained.graphs)}
    letters = {node.digest: node.letter for node in explained.graphs}
    seen: set[str] = set()
    sections = []
    for number, group in enumerate(explained.groups):
        mine = sorted(places[digest] for digest in group.graphs if digest not in seen)
        seen.update(group.graphs)
        rows = tuple(_graph_row(explained.graphs[k], k, letters, names, pairs) for k in mine)
        if rows:
            title = spans(group.in_short.sentence, names)
            label = "by design" if group.is_by_design else "warm-up" if group.expected else ""
            sections.append(GraphSection(f"cause-{number + 1}", title, label, rows))
    return tuple(sections)


def _graph_row(
    node: GraphNode,
    position: int,
    letters: Mapping[str, str],
    names: Names,
    pairs: Mapping[str, str],
) -> GraphRow:
    explanation = node.explanation
    verdict = explanation.verdict.what if explanation else say("First of its kind.")
    return GraphRow(
        letter=node.letter,
        colour=colour_of(position),
        parent=letters.get(node.nearest, ""),
        likeness=node.why_nearest,
        digest=node.digest[:8],
        step=node.step,
        rank=node.rank,
        site=source_line(node.call_site, names),
        instructions=node.instructions,
        compiles=node.compiles,
        hits=node.hits_text,
        seconds="-" if node.spent.is_unknown else duration(node.spent.wall_seconds),
        summary=spans(verdict, names),
        warm_up=node.warm_up,
        address=pairs.get(node.letter, ""),
    )


def insight(group: CauseGroup, nodes: Sequence[GraphNode], names: Names) -> Insight | None:
    """What the comparisons of a group have in common: the values that a number took."""
    taken = values_taken(group, nodes)
    if taken is None:
        return None
    low, high = taken.values[0][0], taken.values[-1][0]
    number = min(MAX_BARS, len(taken.values))
    counts = [0] * number
    for value, runs in taken.values:
        counts[min(number - 1, int((value - low) / (high - low) * number))] += runs
    width = (high - low) / number
    bars = tuple(
        Bar(f"{low + k * width:.4g} to {low + (k + 1) * width:.4g}", count, count / max(counts))
        for k, count in enumerate(counts)
    )
    return Insight(spans(taken.message.sentence, names), bars, f"{low:g}", f"{high:g}")


def compile_rows(explained: RunExplanation, names: Names) -> tuple[CompileRow, ...]:
    """Compiles by step and graph, all ranks together."""
    positions = {node.digest: k for k, node in enumerate(explained.graphs)}
    found: dict[tuple[int, int], list[tuple[SyncRecord, Span]]] = {}
    for process in explained.run.processes:
        for sync in process.syncs:
            if sync.outcome == "compile":
                spans = spans_of(sync) or [span_of(sync)]
                for digest, span in zip(sync.graphs or ("",), spans, strict=True):
                    place = positions.get(digest, -1)
                    found.setdefault((sync.step, place), []).append((sync, span))
    return tuple(
        CompileRow(
            step=step,
            letter=explained.graphs[place].letter if place >= 0 else "?",
            colour=colour_of(place) if place >= 0 else -1,
            ranks=ranges({sync.rank for sync, _ in compiles}),
            compiles=len(compiles),
            seconds=duration(Spent(tuple(span for _, span in compiles)).wall_seconds),
            site=site_of(compiles[0][0], names),
        )
        for (step, place), compiles in sorted(found.items())
    )
