"""From the explanation of a run to the data of its overview."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import say, spans
from xlagraph.report.model import (
    CauseCard,
    CompileRow,
    GraphRow,
    RankRow,
    RunData,
    Timeline,
)
from xlagraph.report.names import visible
from xlagraph.report.pair_page import cause_card
from xlagraph.report.wording import ShownPair, source_line
from xlagraph.runs.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.report.names import Names
    from xlagraph.run.reader import Process
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.model import CauseGroup, GraphNode, RunExplanation

COLOURS = 10
"""Colours of the graphs; letters tell apart what shares one."""
_OUTCOMES = {"compile": "c", "hit": "h", "empty": "e"}


def run_data(
    explained: RunExplanation, names: Names, pairs: Mapping[str, str], max_compiles: int
) -> RunData:
    """The overview of a run; `pairs` are the pair views of the report, with their addresses."""
    rows = _compile_rows(explained, names)
    notes = {
        ": ".join(part for part in (visible(note.what), names.detail(note.detail)) if part)
        for process in explained.run.processes
        for note in process.notes
    }
    unread = sum(process.unread_lines for process in explained.run.processes)
    if unread:
        notes.add(f"{unread} lines of the record files could not be read (a killed process?)")
    return RunData(
        graphs=_lineage(explained, names, pairs),
        compiles=rows[:max_compiles],
        compiles_cut=max(0, len(rows) - max_compiles),
        timeline=timeline(explained, names),
        first_step=explained.first_step,
        alternating=explained.alternating,
        notes=tuple(sorted(notes)),
    )


def colour_of(position: int) -> int:
    """The colour of a graph by its position in the run."""
    return position % COLOURS


def _lineage(
    explained: RunExplanation, names: Names, pairs: Mapping[str, str]
) -> tuple[GraphRow, ...]:
    """Graphs as a tree: each below the nearest earlier one, in order of appearance."""
    children: dict[str, list[int]] = {}
    for k, node in enumerate(explained.graphs):
        children.setdefault(node.nearest, []).append(k)
    letters = {node.digest: node.letter for node in explained.graphs}
    rows: list[GraphRow] = []
    stack = [(k, 0) for k in reversed(children.get("", []))]
    while stack:
        k, depth = stack.pop()
        node = explained.graphs[k]
        rows.append(_graph_row(node, k, depth, letters, names, pairs))
        stack.extend((child, depth + 1) for child in reversed(children.get(node.digest, [])))
    return tuple(rows)


def _graph_row(
    node: GraphNode,
    position: int,
    depth: int,
    letters: dict[str, str],
    names: Names,
    pairs: Mapping[str, str],
) -> GraphRow:
    explanation = node.explanation
    verdict = explanation.verdict.what if explanation else say("First of its kind.")
    return GraphRow(
        letter=node.letter,
        colour=colour_of(position),
        depth=depth,
        parent=letters.get(node.nearest, ""),
        likeness=node.why_nearest,
        digest=node.digest[:8],
        step=node.step,
        rank=node.rank,
        site=source_line(node.call_site, names),
        instructions=node.instructions,
        compiles=node.compiles,
        hits=node.hits_text,
        seconds=round(node.spent.wall_seconds, 6),
        summary=spans(verdict, names),
        warm_up=node.warm_up,
        address=pairs.get(node.letter, ""),
    )


def group_cards(
    explained: RunExplanation,
    names: Names,
    pairs: Mapping[str, str],
    made: Mapping[int, CauseCard],
) -> tuple[CauseCard, ...]:
    """A card for each reason, in the explanation's order; `made`: those of pairs on the page."""
    nodes = {node.digest: node for node in explained.graphs}
    return tuple(
        made.get(k) or _group_card(group, k, nodes, names, pairs)
        for k, group in enumerate(explained.groups)
    )


def cards_of(
    explained: RunExplanation, node: GraphNode, view: ShownPair, whole: Cause | None
) -> dict[int, CauseCard]:
    """The cards of the reasons that a pair on the page stands for, by their places.

    `whole`: the pair's first cause, with the instructions that it cites.
    """
    nodes = {one.digest: one for one in explained.graphs}
    return {
        k: _cause_card(
            group,
            k,
            nodes,
            view,
            replace(group.cause, evidence=whole.evidence, a=whole.a, b=whole.b),
        )
        for k, group in enumerate(explained.groups)
        if group.shown == node.digest and group.cause and whole
    }


def _cause_card(
    group: CauseGroup,
    position: int,
    nodes: Mapping[str, GraphNode],
    view: ShownPair,
    cause: Cause,
) -> CauseCard:
    card = cause_card(
        cause,
        view,
        anchor=f"cause-{position + 1}",
        seconds=group.spent.wall_seconds,
        compiles=group.compiles,
        graphs=_members(group, nodes),
    )
    further = tuple(view.said(say(c.title.sentence, f" ({c.kind})")) for c in group.further)
    return replace(card, also=further)


def _members(group: CauseGroup, nodes: Mapping[str, GraphNode]) -> tuple[tuple[str, int], ...]:
    """Letters and colours of a group's graphs."""
    places = {digest: k for k, digest in enumerate(nodes)}
    return tuple((nodes[digest].letter, colour_of(places[digest])) for digest in group.graphs)


def _group_card(
    group: CauseGroup,
    position: int,
    nodes: Mapping[str, GraphNode],
    names: Names,
    pairs: Mapping[str, str],
) -> CauseCard:
    node = nodes.get(group.shown)
    if group.cause is not None and node is not None and node.explanation is not None:
        labels = (nodes[node.nearest].letter, node.letter)
        view = ShownPair(names, node.explanation, labels, "")
        return _cause_card(group, position, nodes, view, group.cause)
    graphs = _members(group, nodes)
    shown = [pairs[letter] for letter, _ in graphs if letter in pairs]
    return CauseCard(
        anchor=f"cause-{position + 1}",
        kind=group.kind,
        title=spans(group.title.sentence, names),
        evidence=(),
        fix=() if group.expected else spans(group.fix, names),
        where=() if group.expected else spans(group.place.message, names),
        share=None,
        proved=group.proved,
        proof=(),
        expected=group.expected,
        seconds=group.spent.wall_seconds,
        compiles=group.compiles,
        graphs=graphs,
        address=shown[0] if shown and not group.expected else "",
    )


def timeline(explained: RunExplanation, names: Names) -> Timeline:
    """All syncs in columns: one a step, or as many as the busiest process needs."""
    processes = explained.run.processes
    positions = {node.digest: k for k, node in enumerate(explained.graphs)}
    width: dict[int, int] = {}
    for process in processes:
        for step, syncs in _by_step(process.syncs).items():
            width[step] = max(width.get(step, 0), len(syncs))
    first: dict[int, int] = {}
    steps: list[int] = []
    for step in sorted(width):
        first[step] = len(steps)
        steps += [step] * width[step]
    labels = _labels(processes)
    ranks = tuple(
        _rank_row(process, label, first, positions, names)
        for process, label in zip(processes, labels, strict=True)
    )
    return Timeline(
        steps=tuple(steps),
        ranks=ranks,
        letters=tuple(node.letter for node in explained.graphs),
    )


def _by_step(syncs: Iterable[SyncRecord]) -> dict[int, list[SyncRecord]]:
    found: dict[int, list[SyncRecord]] = {}
    for sync in syncs:
        found.setdefault(sync.step, []).append(sync)
    return found


def _labels(processes: Sequence[Process]) -> list[str]:
    """Ranks, told apart by process where one rank ran twice."""
    seen: dict[int, int] = {}
    labels = []
    for process in processes:
        rank = process.record.rank
        seen[rank] = seen.get(rank, 0) + 1
        labels.append(f"rank {rank}" + (f" ({seen[rank]})" if seen[rank] > 1 else ""))
    return labels


def _rank_row(
    process: Process, label: str, first: dict[int, int], positions: dict[str, int], names: Names
) -> RankRow:
    columns, outcomes, graphs, milliseconds, sites = [], [], [], [], []
    for step, syncs in sorted(_by_step(process.syncs).items()):
        for k, sync in enumerate(syncs):
            compiled = sync.outcome == "compile"
            columns.append(first[step] + k)
            outcomes.append(_OUTCOMES.get(sync.outcome, "u"))
            graphs.append(positions.get(sync.graphs[-1], -1) if sync.graphs else -1)
            seconds = sync.compile_seconds if compiled else sync.seconds
            milliseconds.append(round(seconds * 1000))
            if compiled:
                sites.append(_site(sync, names))
    return RankRow(
        label, tuple(columns), "".join(outcomes), tuple(graphs), tuple(milliseconds), tuple(sites)
    )


def _site(sync: SyncRecord, names: Names) -> str:
    if not sync.call_site:
        return ""
    frame = sync.call_site[0]
    return f"{names.path(frame.file)}:{frame.line}"


def _compile_rows(explained: RunExplanation, names: Names) -> tuple[CompileRow, ...]:
    """Compiles by step and graph, all ranks together."""
    positions = {node.digest: k for k, node in enumerate(explained.graphs)}
    found: dict[tuple[int, int], list[SyncRecord]] = {}
    for process in explained.run.processes:
        for sync in process.syncs:
            if sync.outcome == "compile":
                place = positions.get(sync.graphs[-1], -1) if sync.graphs else -1
                found.setdefault((sync.step, place), []).append(sync)
    rows = [
        CompileRow(
            step=step,
            letter=explained.graphs[place].letter if place >= 0 else "?",
            colour=colour_of(place) if place >= 0 else -1,
            ranks=ranges([sync.rank for sync in syncs]),
            compiles=len(syncs),
            seconds=round(Spent.of(syncs).wall_seconds, 6),
            site=_site(syncs[0], names),
        )
        for (step, place), syncs in sorted(found.items())
    ]
    return tuple(rows)


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``0-3, 7``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
