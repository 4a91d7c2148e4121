"""From a run folder to a verdict: which graphs are problems, and what they have in common.

Three passes: a sketch of every graph, the choice of what each is compared with, the explanation
of every pair. The first and the last are done by worker processes where there is enough to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.alternation import alternating
from xlagraph.runs.cache import Cache
from xlagraph.runs.context import own_frame
from xlagraph.runs.groups import group_nodes
from xlagraph.runs.history import history_of
from xlagraph.runs.model import GraphNode, RunExplanation
from xlagraph.runs.pairing import Pairing, RunGraph
from xlagraph.runs.pairs import Pairs
from xlagraph.runs.rekeyed import with_rekeyed
from xlagraph.runs.spent import Spent
from xlagraph.runs.tasks import (
    GraphPlace,
    explain_pair,
    modules,
    sketch,
    sketch_from,
    sketch_key,
)
from xlagraph.runs.verdict import run_verdict, stable_after
from xlagraph.runs.warm_up import is_first, is_warm_up
from xlagraph.workers.crew import Crew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.history import History
    from xlagraph.runs.outcome import Outcome
    from xlagraph.runs.sketch import Sketch

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many are done, and how many there are."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody sees."""


@dataclass(frozen=True, slots=True)
class Means:
    """How a run is explained; the explanation is the same by any means."""

    jobs: int = 1
    """Worker processes, where there is enough to do for them."""
    scheduler: str = ""
    """Address of a Dask scheduler whose workers do it instead."""
    cached: bool = False
    """Whether what was worked out is kept in the run folder, and taken from there."""
    progress: Progress = silent


def explain_run(run: Run, means: Means | None = None) -> RunExplanation:
    """Explains every module of a run by the nearest earlier one, and groups the causes.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
        WorkerError: the workers asked for cannot do it.
    """
    means = means or Means()
    history = history_of(run)
    try:
        with Crew(means.jobs, means.scheduler) as crew:
            graphs = _sketched(run, crew, means)
            pairing = Pairing(history)
            compared = [pairing.compare(graph) for graph in graphs]
            pairs = Pairs(run.address, graphs, compared, cached=means.cached)
            outcomes = _outcomes(pairs, crew, means)
    finally:
        modules.clear()
    return _explanation(run, _nodes(pairs, outcomes, history), pairs, history)


def _explanation(
    run: Run, nodes: tuple[GraphNode, ...], pairs: Pairs, history: History
) -> RunExplanation:
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
        graphs=nodes,
        groups=groups,
        steps=history.steps,
        compiles=sum(1 for s in syncs if s.outcome == "compile"),
        spent=Spent.of(syncs),
        first_step=history.first_step,
        stable_after=stable,
        alternating=alternating(run, {node.digest: node.letter for node in nodes}),
        unnamed_hits=history.turns.unnamed,
        pairs=pairs,
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


def _sketched(run: Run, crew: Crew, means: Means) -> list[RunGraph]:
    """Every graph with its sketch: from the cache, or read now."""
    order = graph_order(run)
    keys = [sketch_key(record.digest) for _, record, _ in order]
    known = dict(Cache(run.address, means.cached).read_all(keys))
    sketches: list[Sketch | None] = [
        sketch_from(known.pop(key, None), record.digest)
        for key, (_, record, _) in zip(keys, order, strict=True)
    ]
    missing = [k for k, found in enumerate(sketches) if found is None]
    places = (
        GraphPlace(run.address, order[k][1].digest, order[k][0], means.cached) for k in missing
    )
    size = sum(order[k][1].bytes for k in missing)
    for done, (n, data) in enumerate(crew.results(sketch, places, size), 1):
        sketches[missing[n]] = sketch_from(data, order[missing[n]][1].digest)
        means.progress("reading graphs", done, len(missing))
    return [
        RunGraph(letter, record, process, process.sync_at(record.sync), found)
        for (letter, record, process), found in zip(order, sketches, strict=True)
        if found is not None
    ]


def _outcomes(pairs: Pairs, crew: Crew, means: Means) -> list[Outcome | None]:
    """What came of each comparison, None where there is none; the cache is asked first."""
    found: list[Outcome | None] = [None] * len(pairs.graphs)
    wanted = {pairs.key(k): k for k, one in enumerate(pairs.compared) if one.number is not None}
    for key, data in Cache(pairs.address, means.cached).read_all(list(wanted)):
        found[wanted[key]] = pairs.keep(wanted[key], data)
    missing = [k for k in wanted.values() if found[k] is None]
    size = sum(pairs.graphs[k].record.bytes for k in missing)
    tasks = (pairs.pair(k) for k in missing)
    for done, (n, data) in enumerate(crew.results(explain_pair, tasks, size), 1):
        found[missing[n]] = pairs.keep(missing[n], data)
        means.progress("explaining differences", done, len(missing))
    return found


def _nodes(
    pairs: Pairs, outcomes: Sequence[Outcome | None], history: History
) -> tuple[GraphNode, ...]:
    nodes: list[GraphNode] = []
    for graph, compared, outcome in zip(pairs.graphs, pairs.compared, outcomes, strict=True):
        is_void = outcome is None or (compared.only_if_proved and not outcome.proved)
        other = None if is_void or compared.number is None else nodes[compared.number]
        nodes.append(_node(graph, other, compared.why, None if is_void else outcome, history))
    return tuple(nodes)


def _node(
    graph: RunGraph,
    other: GraphNode | None,
    why: str,
    outcome: Outcome | None,
    history: History,
) -> GraphNode:
    cost = history.turns.costs[graph.record.digest]
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
        instructions=graph.sketch.instructions,
        waits=any(one.tensors for one in graph.sync.buckets) if graph.sync else False,
        nearest=other.digest if other else "",
        why_nearest=why if other else "",
        explanation=outcome,
        warm_up=is_warm_up(graph, outcome, other, history),
        another_part=graph.step > history.first_step and is_first(graph, history),
    )


def _time_of(record: GraphRecord, process: Process) -> float:
    sync = process.sync_at(record.sync)
    return sync.time if sync else 0.0


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
