"""From a run folder to a verdict: which graphs are problems, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_stored
from xlagraph.progress import silent
from xlagraph.runs.alternation import alternating
from xlagraph.runs.context import named_context, own_frame
from xlagraph.runs.groups import group_nodes
from xlagraph.runs.history import history_of
from xlagraph.runs.model import GraphNode, RunExplanation
from xlagraph.runs.nearest import container, nearest, opcode_histogram
from xlagraph.runs.rekeyed import with_rekeyed
from xlagraph.runs.spent import Spent
from xlagraph.runs.verdict import run_verdict, stable_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Explanation
    from xlagraph.graph import Module
    from xlagraph.progress import Track
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.history import History
    from xlagraph.runs.nearest import Histogram

UNLIKE = 0.3
"""Below this likeness a new module is a program of its own, not a variant of an earlier one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    record: GraphRecord
    process: Process
    sync: SyncRecord | None
    module: Module
    histogram: Histogram
    context: Context


def explain_run(run: Run, track: Track = silent) -> RunExplanation:
    """Explains every module of a run by the nearest earlier one, and groups the causes.

    `track` is told how far it is.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
    """
    graphs = _graphs(run, track)
    history = history_of(run)
    nodes: list[GraphNode] = []
    for k, graph in enumerate(track(graphs, "explaining graphs")):
        nodes.append(_node(graph, graphs[:k], nodes, history))
    syncs = [s for p in run.processes for s in p.syncs]
    groups = group_nodes(nodes, history.turns, began_late=history.began_late)
    groups = with_rekeyed(groups, run, nodes, history.first_step)
    stable = stable_after(syncs, history.steps)
    unseen = _unseen(syncs, nodes)
    return RunExplanation(
        run=run,
        verdict=run_verdict(
            run, groups, stable, history.steps, unseen, began_late=history.began_late
        ),
        unseen=unseen,
        graphs=tuple(nodes),
        groups=groups,
        steps=history.steps,
        compiles=sum(1 for s in syncs if s.outcome == "compile"),
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


def _graphs(run: Run, track: Track) -> list[_Graph]:
    graphs = []
    for letter, record, process in track(graph_order(run), "reading graphs"):
        sync = process.sync_at(record.sync)
        module = read_stored(*run.graph(record.digest), f"{run.name}:{letter}")
        context = named_context(process, record, module)
        graphs.append(_Graph(record, process, sync, module, opcode_histogram(module), context))
    return graphs


def _time_of(record: GraphRecord, process: Process) -> float:
    sync = process.sync_at(record.sync)
    return sync.time if sync else 0.0


def _node(
    graph: _Graph, earlier: list[_Graph], nodes: list[GraphNode], history: History
) -> GraphNode:
    cost = history.turns.costs[graph.record.digest]
    number, why = _compared_with(graph, earlier, history)
    explanation = _explained(graph, earlier, nodes, number)
    if number is None:
        number, explanation = _explained_by_place(graph, earlier, nodes)
        why = "it ran at the same place, and what differs is explained" if explanation else ""
    step = graph.sync.step if graph.sync else 0
    site = own_frame(graph.sync.call_site) if graph.sync else None
    return GraphNode(
        digest=graph.record.digest,
        letter=_letter(len(nodes)),
        rank=graph.process.record.rank,
        step=step,
        call_site=site,
        sync_kind=graph.sync.kind if graph.sync else "",
        spent=Spent(tuple(cost.spans)),
        compiles=cost.compiles,
        hits=cost.hits,
        unnamed_hits=cost.unnamed,
        instructions=len(graph.module),
        context=graph.context,
        nearest="" if number is None else nodes[number].digest,
        why_nearest=why,
        explanation=explanation,
        warm_up=_is_warm_up(
            graph, explanation, nodes[number] if number is not None else None, history
        ),
        another_part=step > history.first_step and _is_first(graph, history),
    )


def _explained(
    graph: _Graph, earlier: list[_Graph], nodes: list[GraphNode], number: int | None
) -> Explanation | None:
    if number is None:
        return None
    other, names = earlier[number], (nodes[number].letter, _letter(len(nodes)))
    return explain_modules(other.module, graph.module, other.context, graph.context, names)


def _explained_by_place(
    graph: _Graph, earlier: list[_Graph], nodes: list[GraphNode]
) -> tuple[int | None, Explanation | None]:
    """The last graph of the same place, however unlike: another type or size is everywhere.

    Only a proof counts here.
    """
    places = [k for k, other in enumerate(earlier) if _at_one_place(graph, other)]
    number = places[-1] if places else None
    explanation = _explained(graph, earlier, nodes, number)
    return (number, explanation) if explanation and explanation.proved else (None, None)


def _compared_with(
    graph: _Graph, earlier: list[_Graph], history: History
) -> tuple[int | None, str]:
    """Which earlier graph a new one is explained by, and why that one."""
    for number, other in enumerate(earlier):
        if _ran_in_step(other, graph, history):
            return number, f"rank {other.process.record.rank} ran it in the same step"
    is_new_place = not any(_at_one_place(graph, other) for other in earlier)
    if is_new_place and _is_another_part(graph, history):
        return None, ""
    if any(_were_read_in_turn(other, graph) for other in earlier):
        steps = {k: g.histogram for k, g in enumerate(earlier) if g.sync and g.sync.ends_step}
        within = container(graph.histogram, list(steps.values()))
        if within is not None:
            return list(steps)[within], "it contains what was read"
    found = nearest(graph.histogram, [g.histogram for g in earlier])
    if found and found[1] >= UNLIKE:
        why = f"{found[1]:.0%} of its instructions are of the same kinds and shapes"
        return found[0], why
    within = container(graph.histogram, [g.histogram for g in earlier])
    if within is not None:
        return within, "it contains nearly all of its instructions"
    return None, ""


def _ran_in_step(other: _Graph, graph: _Graph, history: History) -> bool:
    """Whether another rank ran `other` in the step in which this one ran `graph` first."""
    rank, sync = graph.process.record.rank, graph.sync
    if sync is None or not sync.ends_step or other.process.record.rank >= rank:
        return False
    ran = history.ranks.get((sync.step, other.record.digest), frozenset())
    return other.process.record.rank in ran


def _at_one_place(graph: _Graph, other: _Graph) -> bool:
    """Whether one line, in whichever process, made both compile, and by the same call."""
    x, y = graph.sync, other.sync
    return bool(x and y and (x.entry, x.call_site) == (y.entry, y.call_site))


def _were_read_in_turn(other: _Graph, graph: _Graph) -> bool:
    """Whether values were read one after the other: parts of a step, no variants of each other."""
    x, y = other.sync, graph.sync
    if x is None or y is None or other.process is not graph.process:
        return False
    return x.kind == y.kind == "value" and x.step == y.step


def _is_warm_up(
    graph: _Graph, explanation: Explanation | None, other: GraphNode | None, history: History
) -> bool:
    """The first modules of a program, and the state that the first optimizer step brings.

    State that comes later than in the step after is no warm-up. Nor are graphs in which the
    ranks differ, or that a value read makes in later steps.
    """
    step = graph.sync.step if graph.sync else 0
    if explanation is None or other is None:
        return step <= history.first_step or _begins_something(graph, history)
    if other.rank != graph.process.record.rank and not explanation.diff.same:
        return False
    if step <= history.first_step:
        return True
    expected = bool(explanation.causes) and all(c.expected for c in explanation.causes)
    return expected and other.warm_up and (step <= other.step + 1 or _is_second(graph, history))


def _begins_something(graph: _Graph, history: History) -> bool:
    """Whether a graph unlike all before it is the first at its place, or one turn behind it.

    Where a known graph ran before, or one from before the capture, it begins nothing.
    """
    sync = graph.sync
    if sync is None or sync.kind == "value":
        return sync is None or _is_another_part(graph, history)
    return _is_first(graph, history) or _is_second(graph, history)


def _is_first(graph: _Graph, history: History) -> bool:
    """Whether nothing had run at its place before."""
    return graph.sync is not None and history.turns.number(graph.process, graph.sync) == 0


def _is_second(graph: _Graph, history: History) -> bool:
    """Whether one graph had run at its place before, once, as it compiled."""
    if graph.sync is None or history.turns.number(graph.process, graph.sync) != 1:
        return False
    return history.turns.first(graph.process, graph.sync).outcome == "compile"


def _is_another_part(graph: _Graph, history: History) -> bool:
    """Whether a step or a read made it that is the first at its place and cuts no step."""
    sync = graph.sync
    if sync is None or not (sync.ends_step or sync.kind == "value"):
        return False
    return history.begins_another_part(graph.process, sync)


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
