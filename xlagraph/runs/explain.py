"""From a run folder to a verdict: which graphs are problems, and what they have in common.

Sketches of all graphs say what each is compared with; modules are read in pairs, by worker
processes where there is enough to do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.message import say, words
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT
from xlagraph.runs.by_design.design import Design
from xlagraph.runs.by_design.early import with_early
from xlagraph.runs.by_design.first_copies import with_first_copies
from xlagraph.runs.by_design.known_sizes import with_known_sizes
from xlagraph.runs.by_design.meant import (
    changes_values,
    completes_what_is_left,
    gives_less_away,
    how_meant,
    reorders_outputs,
    settles,
    takes_what_is_left,
)
from xlagraph.runs.by_design.odd_batches import with_odd_batches
from xlagraph.runs.by_design.periodic import periodic_parts
from xlagraph.runs.by_design.small import small_graphs
from xlagraph.runs.by_design.stages import with_stages
from xlagraph.runs.by_design.untold import without_notes
from xlagraph.runs.causes.blocks import block_groups, drawn_again, skipped_blocks
from xlagraph.runs.causes.hooks import attached_again, hook_groups, with_collecting
from xlagraph.runs.causes.kept import held_in_places
from xlagraph.runs.causes.lists import longer_lists
from xlagraph.runs.causes.pending import pending_work
from xlagraph.runs.causes.rekeyed import with_rekeyed
from xlagraph.runs.causes.shuffled import in_drawn_order
from xlagraph.runs.causes.stated import with_statements
from xlagraph.runs.causes.unrolled import unrolled_loops
from xlagraph.runs.causes.untyped import with_makers
from xlagraph.runs.compare import compare, compare_by_sort, compare_further
from xlagraph.runs.graphs.context import own_frame, program_text
from xlagraph.runs.graphs.places import (
    begins_reading,
    begins_something,
    is_at_own_line,
    is_first,
    is_second,
)
from xlagraph.runs.graphs.weights import weights_of
from xlagraph.runs.groups import group_nodes, introduced, with_source
from xlagraph.runs.model import OFTEN, GraphNode, Meant, RunExplanation, failures, ranked
from xlagraph.runs.pairs.explained import Pairs
from xlagraph.runs.pairs.pairing import Pairing
from xlagraph.runs.pairs.tasks import modules
from xlagraph.runs.pairs.work import Means, captured_graphs, outcomes
from xlagraph.runs.slight import with_slight
from xlagraph.runs.steps.alternation import alternating
from xlagraph.runs.steps.history import history_of
from xlagraph.runs.steps.leading import told_graphs
from xlagraph.runs.steps.order import Phase
from xlagraph.runs.steps.spent import Spent
from xlagraph.runs.verdict import run_verdict, stable_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.steps.history import History


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
        graphs = captured_graphs(run, graph_order(run), means)
        pairs = Pairs(run.address, graphs, cached=means.cached)
        pairing = Pairing(history)
        compared = [pairing.compare(graph) for graph in graphs]
        explain = partial(outcomes, pairs, means=means)
        comparisons = compare(compared, explain)
        design = Design(graphs, comparisons, history.first_step)
        comparisons = compare_by_sort(graphs, comparisons, design, history, explain)
        comparisons = compare_further(graphs, comparisons, explain)
    finally:
        modules.clear()
    return _explanation(run, pairs, comparisons, design, history)


def _explanation(
    run: Run, pairs: Pairs, comparisons: Sequence[Comparison], design: Design, history: History
) -> RunExplanation:
    nodes: list[GraphNode] = []
    pending = pending_work(pairs.graphs, history.turns)
    grown = frozenset[str]().union(*(work.graphs for work in pending))
    attached = attached_again(pairs.graphs)
    lists = longer_lists(pairs.graphs, history.turns)
    never_meant = frozenset[str]().union(
        *(one.digests for one in attached), *(one.graphs for one in lists if one.backward)
    )
    small = small_graphs(pairs.graphs, design, history)
    parts = periodic_parts(pairs.graphs, comparisons, design)
    for k, comparison in enumerate(comparisons):
        meant = how_meant(k, pairs.graphs, comparisons, design, history, parts)
        node = _node(k, pairs.graphs, comparison, nodes, design, history, meant)
        if k in small and not node.warm_up:
            node = replace(node, warm_up=True, is_small=True)
        if node.digest in grown or (node.meant and node.digest in never_meant):
            node = replace(node, warm_up=False, by_design=False, meant=Meant.NOT)
        nodes.append(node)
    syncs = [s for p in run.processes for s in p.syncs]
    stable = stable_after(syncs, history.steps)
    ended = {node.digest for node in nodes if node.another_part and node.warm_up}
    last = stable_after(syncs, history.steps, ended)
    since = 0 if last is None else history.steps - 1 - last
    nodes = with_known_sizes(nodes, pairs.graphs, comparisons, design, parts)
    nodes = with_odd_batches(nodes, pairs.graphs, comparisons, design, grown | never_meant, since)
    nodes = with_first_copies(nodes, pairs.graphs, comparisons, design)
    program = program_text(run.processes)
    if not failures(run):
        going_on = grown | never_meant | in_drawn_order(nodes, program)
        nodes = with_stages(nodes, pairs.graphs, design, going_on, history.steps)
        ended = {node.digest for node in nodes if node.another_part and node.warm_up}
        last = stable_after(syncs, history.steps, ended)
        nodes = with_early(nodes, pairs.graphs, comparisons, design, history, going_on, last)
    nodes = without_notes(nodes)
    open_nodes = [node for k, node in enumerate(nodes) if not design.is_in_cycle(k)]
    skipped = skipped_blocks(pairs.graphs, open_nodes, history.turns.followed)
    blocks = block_groups(skipped, nodes, program)
    told = {digest for group in blocks for digest in group.graphs}
    nodes = [
        replace(node, warm_up=False, meant=Meant.NOT) if node.digest in told else node
        for node in nodes
    ]
    again = drawn_again(skipped, pairs.graphs, nodes, history.first_step)
    nodes = [replace(n, warm_up=True) if n.digest in again else n for n in nodes]
    others = [node for node in nodes if node.digest not in told]
    hooks = hook_groups(attached, others, run.processes)
    told |= {digest for group in hooks for digest in group.graphs}
    others = [node for node in nodes if node.digest not in told]
    unrolled = unrolled_loops(pairs.graphs, program)
    groups = group_nodes(
        others, history.turns, lists, pending, unrolled, program, began_late=history.began_late
    )
    groups = ranked((*blocks, *hooks, *groups))
    groups = with_collecting(groups, nodes, pairs.graphs, run.processes)
    groups = with_rekeyed(groups, run, nodes, history.first_step)
    groups = with_makers(
        with_source(with_statements(groups, run, pairs.graphs), run), run.processes
    )
    groups, nodes = with_slight(groups, nodes, history.steps)
    groups = introduced(with_source(groups, run), nodes)
    turning, since = alternating(run, {node.digest: node.letter for node in nodes})
    unseen = _unseen(syncs, nodes)
    return RunExplanation(
        run=run,
        verdict=run_verdict(
            run,
            groups,
            nodes,
            stable,
            history.steps,
            unseen,
            _parts(nodes, design),
            began_late=history.began_late,
        ),
        unseen=unseen,
        graphs=tuple(nodes),
        groups=groups,
        steps=history.steps,
        compiles=sum(max(len(s.graphs), 1) for s in syncs if s.outcome == "compile"),
        spent=Spent.of(syncs),
        first_step=_training_from(pairs.graphs, history),
        stable_after=stable,
        alternating=turning,
        alternating_since=since,
        unnamed_hits=history.turns.unnamed,
        pairs=pairs,
    )


def graph_order(run: Run) -> list[tuple[str, GraphRecord, Process]]:
    """Each distinct stored module once, with its letter, in the order of steps."""
    stored = set(run.digests())
    told = (one for one in told_graphs(run) if one[0].digest in stored)
    return [(_letter(k), record, process) for k, (record, process) in enumerate(told)]


def _node(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparison: Comparison,
    nodes: Sequence[GraphNode],
    design: Design,
    history: History,
    meant: Meant,
) -> GraphNode:
    graph = graphs[number]
    cost = history.turns.costs[graph.record.digest]
    begins_sort = design.begins_sort(number)
    is_training = graph.step > history.first_step
    is_early = is_first(graph, history) or is_second(graph, history)
    has_line = is_early and is_training and is_at_own_line(graph, history)
    has_line = has_line and comparison.number is None
    phase = _phase(number, comparison, design)
    outcome = comparison.outcome
    adds = (
        cost.hits >= OFTEN and outcome is not None and design.adds_kept_gradients(number, outcome)
    )
    by_design = begins_sort or has_line or phase is not None or adds
    call_site = own_frame(graph.sync.call_site) if graph.sync else None
    here = say("step at ", call_site) if call_site else say()
    part = design.label(number)
    if begins_sort or has_line:
        part = part if part and begins_sort else here
    if phase is not None:
        part = say(part or here, f" {phase}")
    warm_up = by_design or _is_warm_up(number, graphs, comparison, nodes, design, history)
    return GraphNode(
        digest=graph.record.digest,
        letter=graph.letter,
        rank=graph.process.record.rank,
        step=graph.step,
        call_site=call_site,
        sync_kind=graph.sync.kind if graph.sync else "",
        spent=Spent(tuple(cost.spans)),
        compiles=cost.compiles,
        hits=cost.hits,
        unnamed_hits=cost.unnamed,
        instructions=graph.sketch.instructions,
        waits=any(one.tensors for one in graph.sync.buckets) if graph.sync else False,
        nearest="" if comparison.number is None else nodes[comparison.number].digest,
        why_nearest=comparison.why,
        explanation=outcome,
        held=held_in_places(graph.sync),
        part=part,
        by_design=by_design,
        begins_reading=begins_reading(graph, history)
        and not _has_other_turns(graph, graphs, comparison),
        warm_up=warm_up or meant is not Meant.NOT,
        meant=Meant.NOT if warm_up else meant,
        another_part=graph.step > history.first_step and is_first(graph, history),
    )


def _has_other_turns(
    graph: CapturedGraph, graphs: Sequence[CapturedGraph], comparison: Comparison
) -> bool:
    """Whether a value was read as before at the same line, of another number of passes."""
    if comparison.number is None or comparison.outcome is None or graph.sync is None:
        return False
    other, causes = graphs[comparison.number].sync, comparison.outcome.causes
    is_there = other is not None and graph.sync.call_site == other.call_site
    return is_there and bool(causes) and causes[0].kind is ACCUMULATION_COUNT


def _phase(number: int, comparison: Comparison, design: Design) -> Phase | None:
    """The place of a graph in the phases of a program, if it is another one for that.

    What the part before has computed comes in ready-made there, such as gathered weights, or what
    it left pending is computed there, or a copy that it made shares the tensors; or the last round
    of an evaluation leaves out what only another one needs.
    """
    outcome, other = comparison.outcome, comparison.number
    if outcome is None or other is None:
        return None
    is_elsewhere = partial(design.is_elsewhere, number)
    if takes_what_is_left(outcome) or completes_what_is_left(outcome, is_elsewhere):
        return design.place_in_phase(other, number)
    if gives_less_away(outcome) and design.follows_another_part(number):
        return Phase.BEHIND
    is_other = not all(one.expected for one in outcome.causes)
    is_other = is_other and outcome.proved and not changes_values(outcome)
    return Phase.END if is_other and design.ends_evaluations(other, number) else None


def _training_from(graphs: Sequence[CapturedGraph], history: History) -> int:
    """The step from which on it trains: the main loop's first, or an earlier one that updates."""
    trains = (graph.step for graph in graphs if weights_of(graph).trained)
    return min(history.first_step, next(trains, history.first_step))


def _parts(nodes: Sequence[GraphNode], design: Design) -> tuple[Message, ...]:
    """What the sorts of step are called, in order of appearance; empty if there is but one."""
    if not any(node.by_design for node in nodes):
        return ()
    named = (n.part for k, n in enumerate(nodes) if n.by_design or design.is_first(k))
    return tuple({words(part): part for part in named}.values())


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
    graph, explanation = graphs[number], comparison.outcome
    if comparison.number is None or explanation is None:
        return graph.step <= history.first_step or begins_something(graph, history)
    other = nodes[comparison.number]
    is_of_rank = comparison.is_within or other.rank == graph.process.record.rank
    if not (is_of_rank or explanation.same):
        return False
    if graph.step <= history.first_step:
        return True
    if not other.warm_up:
        return False
    is_second_turn = design.counterpart(number) == comparison.number
    if is_second_turn and settles(explanation, design.period(number)):
        return True
    expected = bool(explanation.causes) and all(cause.expected for cause in explanation.causes)
    if expected and design.counterpart_in_stage(number) == comparison.number:
        return True
    if design.follows_first(comparison.number, number):
        came_again = history.turns.costs[graph.record.digest].hits > 0
        is_settled = came_again and reorders_outputs(explanation)
        return expected or is_settled or design.brings_state(comparison.number, number)
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
