"""From a run folder to a verdict: which graphs are problems, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.context import context_of
from xlagraph.cause.explain import explain_modules
from xlagraph.cause.finding import count
from xlagraph.cause.nearest import nearest, sketch
from xlagraph.cause.run_model import CauseGroup, GraphNode, RunExplanation
from xlagraph.hlo import read_module

if TYPE_CHECKING:
    from collections import Counter

    from xlagraph.cause.model import Context, Explanation
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
    groups = _groups(nodes)
    stable = _stable_after(syncs, first_step)
    return RunExplanation(
        run=run,
        verdict=_verdict(groups, stable),
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
    found = nearest(graph.sketch, [g.sketch for g in earlier])
    explanation: Explanation | None = None
    digest, why = "", ""
    if found and found[1] >= UNLIKE:
        other = earlier[found[0]]
        digest = other.record.digest
        why = f"{found[1]:.0%} of its instructions are of the same kinds and shapes"
        explanation = explain_modules(other.module, graph.module, other.context, graph.context)
    step = graph.sync.step if graph.sync else 0
    site = graph.sync.call_site[0] if graph.sync and graph.sync.call_site else None
    return GraphNode(
        digest=graph.record.digest,
        letter=_letter(len(nodes)),
        rank=graph.process.record.rank,
        step=step,
        call_site=f"{site.file}:{site.line}" if site else "",
        compile_seconds=seconds,
        compiles=compiles,
        hits=hits,
        instructions=len(graph.module),
        nearest=digest,
        why_nearest=why,
        explanation=explanation,
        warm_up=_is_warm_up(explanation, step, first_step),
    )


def _is_warm_up(explanation: Explanation | None, step: int, first_step: int) -> bool:
    """The first modules of a program, and what the first optimizer step brings."""
    if explanation is None or step <= first_step:
        return True
    return bool(explanation.causes) and all(c.expected for c in explanation.causes)


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


def _groups(nodes: list[GraphNode]) -> tuple[CauseGroup, ...]:
    """One group for each reason: kind and source line of a module's main cause."""
    grouped: dict[tuple[str, str], list[GraphNode]] = {}
    for node in nodes:
        grouped.setdefault(_reason(node), []).append(node)
    groups = [_group(kind, members) for (kind, _), members in grouped.items()]
    return tuple(sorted(groups, key=lambda g: (g.expected, -g.seconds, g.title)))


def _reason(node: GraphNode) -> tuple[str, str]:
    if node.explanation is None or (node.warm_up and not node.explanation.causes):
        return ("first-graph", "")
    if not node.explanation.causes:
        return ("same-graph" if node.explanation.diff.same else "unexplained", "")
    cause = node.explanation.causes[0]
    if node.warm_up and not cause.expected:
        return ("first-graph", "")
    lines = next((e.sources for e in cause.evidence if e.sources), ())
    return (cause.kind, lines[0] if lines else "")


def _group(kind: str, members: list[GraphNode]) -> CauseGroup:
    main = max(members, key=lambda node: node.compile_seconds)
    explanation = main.explanation
    cause = explanation.causes[0] if explanation and explanation.causes else None
    if kind == "first-graph":
        cause = None
        title = "first graphs: setting up, and the first step of the program"
    elif cause:
        title = cause.title
    else:
        title = explanation.verdict if explanation else "unexplained"
    return CauseGroup(
        kind=kind,
        title=title,
        cause=cause,
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        seconds=sum(node.compile_seconds for node in members),
        expected=all(node.warm_up for node in members),
        proved=all(node.explanation.proved for node in members if node.explanation),
    )


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
        if len(returns) >= 2:
            turning = set(returns) | {prints[-1]}
            return tuple(
                sorted(
                    {
                        letters[digest]
                        for sync in steps
                        if sync.fingerprint in turning
                        for digest in sync.graphs
                        if digest in letters
                    }
                )
            )
    return ()


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
    title = first.title[0].upper() + first.title[1:]
    return f"{count(compiles, 'compile')} beyond warm-up ({seconds:.1f} s), {reasons}: {title}."
