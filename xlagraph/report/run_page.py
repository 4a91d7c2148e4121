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
from xlagraph.report.wording import ShownPair, excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.model import Cause
    from xlagraph.message import Message
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
        unnamed_hits=explained.unnamed_hits,
        notes=tuple(sorted(notes)),
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
    return replace(
        card,
        expected=group.expected,
        insight=insight(group, list(nodes.values()), view.names),
        also=tuple(view.said(_also(one, group)) for one in group.further),
        follows=tuple(map(view.said, (*group.follows, *filter(None, [group.same_number])))),
    )


def _also(cause: Cause, group: CauseGroup) -> Message:
    """What else differs in the graphs of a group, and what to change if that stays."""
    fix = say(". Fix: ", cause.fix) if cause in group.second else say()
    return say(cause.title.sentence, f" ({cause.kind})", fix)


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
        source=() if group.expected else excerpt(group.place, names),
        share=None,
        proved=group.proved,
        proof=(),
        expected=group.expected,
        seconds=group.spent.wall_seconds,
        compiles=group.compiles,
        graphs=graphs,
        address=shown[0] if shown and not group.expected else "",
    )
