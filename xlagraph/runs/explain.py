"""From a run folder to a verdict: which graphs are problems, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.hlo import read_stored
from xlagraph.progress import silent
from xlagraph.runs.alternation import alternating
from xlagraph.runs.captured import CapturedGraph
from xlagraph.runs.compare import compare, compare_by_sort
from xlagraph.runs.context import named_context, own_frame
from xlagraph.runs.design import Design
from xlagraph.runs.groups import group_nodes
from xlagraph.runs.history import history_of
from xlagraph.runs.model import GraphNode, RunExplanation
from xlagraph.runs.nearest import opcode_histogram
from xlagraph.runs.places import begins_something, is_first, is_second
from xlagraph.runs.rekeyed import with_rekeyed
from xlagraph.runs.spent import Spent
from xlagraph.runs.verdict import run_verdict, stable_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.progress import Track
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.history import History


def explain_run(run: Run, track: Track = silent) -> RunExplanation:
    """Explains every module of a run by the nearest earlier one, and groups the causes.

    `track` is told how far it is.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
    """
    graphs = _graphs(run, track)
    history = history_of(run)
    comparisons = compare(graphs, history, track)
    design = Design(graphs, [comparison.diff for comparison in comparisons])
    nodes: list[GraphNode] = []
    for k, comparison in enumerate(compare_by_sort(graphs, comparisons, design)):
        nodes.append(_node(k, graphs, comparison, nodes, design, history))
    syncs = [s for p in run.processes for s in p.syncs]
    groups = group_nodes(nodes, history.turns, began_late=history.began_late)
    groups = with_rekeyed(groups, run, nodes, history.first_step)
    stable = stable_after(syncs, history.steps)
    unseen = _unseen(syncs, nodes)
    return RunExplanation(
        run=run,
        verdict=run_verdict(
            run,
            groups,
            stable,
            history.steps,
            unseen,
            design.parts(),
            began_late=history.began_late,
        ),
        unseen=unseen,
        graphs=tuple(nodes),
        groups=groups,
        steps=history.steps,
        compiles=sum(max(len(s.graphs), 1) for s in syncs if s.outcome == "compile"),
        spent=Spent.of(syncs),
        first_step=history.first_step,
        stable_after=stable,
        alternating=alternating(run, {node.digest: node.letter for node in nodes}),
        unnamed_hits=history.turns.unnamed,
    )


def graph_order(run: Run) -> list[tuple[str, GraphRecord, Process]]:
    """Each distinct stored module once, with its letter, by first sync (time, then rank)."""
    records = sorted(
        ((g, p) for p in run.processes for g in p.graphs),
        key=lambda pair: (_time_of(pair[0], pair[1]), pair[1].record.rank),
    )
    stored = set(run.digests())
    found: dict[str, tuple[GraphRecord, Process]] = {}
    for record, process in records:
        if record.digest in stored:
            found.setdefault(record.digest, (record, process))
    return [(_letter(k), record, process) for k, (record, process) in enumerate(found.values())]


def _graphs(run: Run, track: Track) -> list[CapturedGraph]:
    graphs = []
    for letter, record, process in track(graph_order(run), "reading graphs"):
        sync = process.sync_at(record.sync)
        module = read_stored(*run.graph(record.digest), f"{run.name}:{letter}")
        context = named_context(process, record, module)
        graphs.append(
            CapturedGraph(letter, record, process, sync, module, opcode_histogram(module), context)
        )
    return graphs


def _time_of(record: GraphRecord, process: Process) -> float:
    sync = process.sync_at(record.sync)
    return sync.time if sync else 0.0


def _node(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparison: Comparison,
    nodes: Sequence[GraphNode],
    design: Design,
    history: History,
) -> GraphNode:
    graph = graphs[number]
    cost = history.turns.costs[graph.record.digest]
    by_design = design.begins_sort(number)
    return GraphNode(
        digest=graph.record.digest,
        letter=graph.letter,
        rank=graph.process.record.rank,
        step=graph.step,
        call_site=own_frame(graph.sync.call_site) if graph.sync else None,
        sync_kind=graph.sync.kind if graph.sync else "",
        spent=Spent(tuple(cost.spans)),
        compiles=cost.compiles,
        hits=cost.hits,
        unnamed_hits=cost.unnamed,
        instructions=len(graph.module),
        context=graph.context,
        nearest="" if comparison.number is None else nodes[comparison.number].digest,
        why_nearest=comparison.why,
        explanation=comparison.explanation,
        part=design.label(number),
        by_design=by_design,
        warm_up=by_design or _is_warm_up(number, graphs, comparison, nodes, design, history),
        another_part=graph.step > history.first_step and is_first(graph, history),
    )


def _is_warm_up(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparison: Comparison,
    nodes: Sequence[GraphNode],
    design: Design,
    history: History,
) -> bool:
    """The first modules of a program, and the state that the first optimizer step brings.

    State that comes later than in the update after is no warm-up. Nor are graphs in which the
    ranks differ, or that a value read makes in later steps.
    """
    graph, explanation = graphs[number], comparison.explanation
    if comparison.number is None or explanation is None:
        return graph.step <= history.first_step or begins_something(graph, history)
    other = nodes[comparison.number]
    if other.rank != graph.process.record.rank and not explanation.diff.same:
        return False
    if graph.step <= history.first_step:
        return True
    if not other.warm_up:
        return False
    expected = bool(explanation.causes) and all(cause.expected for cause in explanation.causes)
    if design.follows_first_update(comparison.number, number):
        return expected or design.brings_state(comparison.number, number)
    return expected and (graph.step <= other.step + 1 or is_second(graph, history))


def _letter(number: int) -> str:
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _unseen(syncs: Sequence[SyncRecord], nodes: Sequence[GraphNode]) -> int:
    """Compiles whose module is not stored."""
    known = {node.digest for node in nodes}
    return sum(1 for s in syncs if s.outcome == "compile" and not known.intersection(s.graphs))
