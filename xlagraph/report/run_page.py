"""From the explanation of a run to the data of its overview."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import say, spans
from xlagraph.report.graph_table import colour_of, compile_rows, graph_sections, insight
from xlagraph.report.model import CauseCard
from xlagraph.report.names import visible
from xlagraph.report.pair_page import cause_card
from xlagraph.report.run_model import RunData
from xlagraph.report.wording import ShownPair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.report.names import Names
    from xlagraph.runs.model import CauseGroup, GraphNode, RunExplanation


def run_data(
    explained: RunExplanation, names: Names, pairs: Mapping[str, str], max_compiles: int
) -> RunData:
    """The overview of a run; `pairs` are the pair views of the report, with their addresses."""
    rows = compile_rows(explained, names)
    notes = {
        ": ".join(part for part in (visible(note.what), names.detail(note.detail)) if part)
        for process in explained.run.processes
        for note in process.notes
    }
    unread = sum(process.unread_lines for process in explained.run.processes)
    if unread:
        notes.add(f"{unread} lines of the record files could not be read (a killed process?)")
    return RunData(
        sections=graph_sections(explained, names, pairs),
        compiles=rows[:max_compiles],
        compiles_cut=max(0, len(rows) - max_compiles),
        first_step=explained.first_step,
        notes=tuple(sorted(notes)),
    )


def _shown_pair(
    node: GraphNode, letters: dict[str, str], names: Names, pairs: Mapping[str, str]
) -> ShownPair | None:
    """How to speak of a graph and the one before it."""
    if node.explanation is None:
        return None
    labels = (letters.get(node.nearest, "A"), node.letter)
    shown = node.letter if node.letter in pairs else ""
    return ShownPair(names, node.explanation, labels, shown)


def group_cards(
    explained: RunExplanation, names: Names, pairs: Mapping[str, str]
) -> tuple[CauseCard, ...]:
    """A card for each reason, in the explanation's order."""
    nodes = {node.digest: node for node in explained.graphs}
    return tuple(
        _group_card(group, k, nodes, names, pairs) for k, group in enumerate(explained.groups)
    )


def _group_card(
    group: CauseGroup,
    position: int,
    nodes: dict[str, GraphNode],
    names: Names,
    pairs: Mapping[str, str],
) -> CauseCard:
    members = [nodes[digest] for digest in group.graphs]
    places = {digest: k for k, digest in enumerate(nodes)}
    graphs = tuple((node.letter, colour_of(places[node.digest])) for node in members)
    anchor = f"cause-{position + 1}"
    found = insight(group, list(nodes.values()), names)
    letters = {digest: node.letter for digest, node in nodes.items()}
    view = _shown_pair(nodes[group.shown], letters, names, pairs) if group.shown else None
    if group.cause is not None and view is not None:
        card = cause_card(
            group.cause,
            view,
            anchor=anchor,
            seconds=group.spent.wall_seconds,
            compiles=group.compiles,
            graphs=graphs,
        )
        return replace(
            card,
            insight=found,
            also=tuple(view.said(say(c.title.sentence, f" ({c.kind})")) for c in group.further),
        )
    shown = [pairs[letter] for letter, _ in graphs if letter in pairs]
    return CauseCard(
        anchor=anchor,
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
