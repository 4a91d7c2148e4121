"""From a run folder to a verdict: which graphs are problems, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.context import context_of
from xlagraph.cause.explain import explain_modules
from xlagraph.cause.finding import count, sentence
from xlagraph.cause.groups import group_nodes
from xlagraph.cause.nearest import container, nearest, sketch
from xlagraph.cause.places import own_frame
from xlagraph.cause.run_model import GraphNode, RunExplanation
from xlagraph.cause.sides import named_sides
from xlagraph.hlo import read_module

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Explanation
    from xlagraph.cause.run_model import CauseGroup
    from xlagraph.graph import Module
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord

UNLIKE = 0.3
"""Below this likeness a new module is a program of its own, not a variant of an earlier one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    record: GraphRecord
    process: Process
    sync: SyncRecord | None
    module: Module
    sketch: Counter[tuple[str, str]]
    context: Context


def explain_run(run: Run) -> RunExplanation:
    """Explains every module of a run by the nearest earlier one, and groups the causes.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
    """
    graphs = _graphs(run)
    first_step = _first_training_step(run)
    nodes: list[GraphNode] = []
    for k, graph in enumerate(graphs):
        nodes.append(_node(run, graph, graphs[:k], nodes, first_step))
    steps = max((s.step for p in run.processes for s in p.syncs), default=-1) + 1
    syncs = [s for p in run.processes for s in p.syncs]
    groups = group_nodes(nodes)
    stable = _stable_after(syncs, first_step)
    unseen = _unseen(syncs, nodes)
    return RunExplanation(
        run=run,
        verdict=_whole_verdict(run, groups, stable, unseen),
        unseen=unseen,
        graphs=tuple(nodes),
        groups=groups,
        steps=steps,
        compiles=sum(1 for s in syncs if s.outcome == "compile"),
        compile_seconds=sum(s.compile_seconds for s in syncs),
        stable_after=stable,
        alternating=_alternating(run, nodes),
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


def _graphs(run: Run) -> list[_Graph]:
    graphs = []
    for letter, record, process in graph_order(run):
        sync = next((s for s in process.syncs if s.index == record.sync), None)
        module = read_module(run.graph_text(record.digest), f"{run.path}:{letter}")
        context = context_of(process, record)
        graphs.append(_Graph(record, process, sync, module, sketch(module), context))
    return graphs


def _time_of(record: GraphRecord, process: Process) -> float:
    return next((s.time for s in process.syncs if s.index == record.sync), 0.0)


def _first_training_step(run: Run) -> int:
    """The first step of the training loop: of the call site that the last step has."""
    firsts = []
    for process in run.processes:
        steps = [s for s in process.syncs if s.kind == "step" and s.outcome != "empty"]
        if steps:
            firsts.append(min(s.step for s in steps if s.call_site == steps[-1].call_site))
    return min(firsts, default=0)


def _node(
    run: Run, graph: _Graph, earlier: list[_Graph], nodes: list[GraphNode], first_step: int
) -> GraphNode:
    compiles, hits, seconds = _cost(run, graph.record.digest)
    number, why = _compared_with(run, graph, earlier)
    explanation: Explanation | None = None
    digest = ""
    if number is not None:
        other = earlier[number]
        digest = other.record.digest
        explanation = named_sides(
            explain_modules(other.module, graph.module, other.context, graph.context),
            nodes[number].letter,
            _letter(len(nodes)),
        )
    step = graph.sync.step if graph.sync else 0
    site = own_frame(graph.sync.call_site) if graph.sync else ""
    return GraphNode(
        digest=graph.record.digest,
        letter=_letter(len(nodes)),
        rank=graph.process.record.rank,
        step=step,
        call_site=site,
        compile_seconds=seconds,
        compiles=compiles,
        hits=hits,
        instructions=len(graph.module),
        nearest=digest,
        why_nearest=why,
        explanation=explanation,
        warm_up=_is_warm_up(
            graph, explanation, nodes[number] if number is not None else None, first_step
        ),
    )


def _compared_with(run: Run, graph: _Graph, earlier: list[_Graph]) -> tuple[int | None, str]:
    """Which earlier graph a new one is explained by, and why that one."""
    for number, other in enumerate(earlier):
        if _ran_in_step(run, other, graph):
            return number, f"rank {other.process.record.rank} ran it in the same step"
    found = nearest(graph.sketch, [g.sketch for g in earlier])
    if found and found[1] >= UNLIKE:
        why = f"{found[1]:.0%} of its instructions are of the same kinds and shapes"
        return found[0], why
    within = container(graph.sketch, [g.sketch for g in earlier])
    if within is not None:
        return within, "it contains nearly all of its instructions"
    return None, ""


def _ran_in_step(run: Run, other: _Graph, graph: _Graph) -> bool:
    """Whether another rank ran `other` in the step in which this one ran `graph` first."""
    rank, sync = graph.process.record.rank, graph.sync
    if sync is None or sync.kind != "step" or other.process.record.rank >= rank:
        return False
    return any(
        s.step == sync.step and s.kind == "step" and other.record.digest in s.graphs
        for p in run.processes
        if p.record.rank == other.process.record.rank
        for s in p.syncs
    )


def _is_warm_up(
    graph: _Graph, explanation: Explanation | None, other: GraphNode | None, first_step: int
) -> bool:
    """The first modules of a program, and the state that the first optimizer step brings.

    State that comes later than in the step after is no warm-up. Nor
    are graphs in which the ranks differ, or that a value read makes in later steps.
    """
    step = graph.sync.step if graph.sync else 0
    if explanation is None or other is None:
        return step <= first_step or not (graph.sync and graph.sync.kind == "value")
    if other.rank != graph.process.record.rank and not explanation.diff.same:
        return False
    if step <= first_step:
        return True
    expected = bool(explanation.causes) and all(c.expected for c in explanation.causes)
    return expected and other.warm_up and step <= other.step + 1


def _cost(run: Run, digest: str) -> tuple[int, int, float]:
    compiles = hits = 0
    seconds = 0.0
    for process in run.processes:
        for sync in process.syncs:
            if digest in sync.graphs:
                if sync.outcome == "compile":
                    compiles += 1
                    seconds += sync.compile_seconds
                else:
                    hits += 1
    return compiles, hits, seconds


def _letter(number: int) -> str:
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _stable_after(syncs: list[SyncRecord], first_step: int) -> int | None:
    """The last training step that compiled, counted from 0 in the training loop."""
    last = max((s.step for s in syncs), default=0)
    compiled = max((s.step for s in syncs if s.outcome == "compile"), default=first_step - 1)
    return None if compiled >= last else max(compiled - first_step, 0)


def _alternating(run: Run, nodes: list[GraphNode]) -> tuple[str, ...]:
    """Letters of the graphs to which the training steps return again and again.

    Steps are told apart by fingerprint, for a hit does not always say which graph it ran.
    """
    letters = {node.digest: node.letter for node in nodes}
    for process in run.processes:
        steps = [s for s in process.syncs if s.kind == "step" and s.outcome != "empty"]
        steps = [s for s in steps if s.call_site == steps[-1].call_site]
        prints = [s.fingerprint for s in steps]
        returns = [
            now
            for k, (before, now) in enumerate(pairwise(prints), 1)
            if now != before and now in prints[: k - 1]
        ]
        turning = set(returns) | {prints[-1]} if prints else set()
        latest = {
            sync.fingerprint: letters[digest]
            for sync in steps
            if sync.fingerprint in turning
            for digest in sync.graphs
            if digest in letters
        }
        found = set(latest.values())
        if len(returns) >= 2 and len(found) >= 2:
            return tuple(sorted(found))
    return ()


def _unseen(syncs: Sequence[SyncRecord], nodes: Sequence[GraphNode]) -> int:
    """Compiles whose module is not stored."""
    known = {node.digest for node in nodes}
    return sum(1 for s in syncs if s.outcome == "compile" and not known.intersection(s.graphs))


def _whole_verdict(
    run: Run, groups: tuple[CauseGroup, ...], stable: int | None, unseen: int
) -> str:
    """The verdict, and what it could not take into account."""
    unread = sum(process.unread_lines for process in run.processes)
    parts = [f"{count(unseen, 'compile')} without a stored graph"] if unseen else []
    parts += [f"{count(unread, 'record')} that cannot be read"] if unread else []
    if not parts:
        return _verdict(groups, stable)
    missing = f"Not explained: {' and '.join(parts)}."
    if unseen and all(group.expected for group in groups):
        return missing
    return f"{_verdict(groups, stable)} {missing}"


def _verdict(groups: tuple[CauseGroup, ...], stable: int | None) -> str:
    problems = [g for g in groups if not g.expected]
    warm_up = [g for g in groups if g.expected]
    spent = sum(g.seconds for g in warm_up)
    if not problems:
        compiles = sum(g.compiles for g in warm_up)
        if stable is None:
            return (
                f"No problem found: {count(compiles, 'compile')} ({spent:.1f} s), all of them "
                "warm-up; the run ended before it could be seen to be stable."
            )
        return (
            f"Stable after warm-up: {count(compiles, 'compile')} ({spent:.1f} s) up to training "
            f"step {stable}, none in the steps after it."
        )
    first = problems[0]
    compiles = sum(g.compiles for g in problems)
    seconds = sum(g.seconds for g in problems)
    reasons = "one cause" if len(problems) == 1 else f"{len(problems)} causes, the costliest first"
    lead = f"{count(compiles, 'compile')} beyond warm-up ({seconds:.1f} s), {reasons}"
    return f"{lead}: {sentence(first.title)}."
