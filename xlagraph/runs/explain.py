"""From a run folder to a verdict: which graphs are problems, and what they have in common.

Sketches of all graphs say what each is compared with; modules are read in pairs, by worker
processes where there is enough to do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xlagraph.message import words
from xlagraph.runs.account import Compared, account_of
from xlagraph.runs.by_design.design import Design
from xlagraph.runs.compare import compare, compare_by_sort, compare_further
from xlagraph.runs.graphs.context import step_at
from xlagraph.runs.graphs.weights import weights_of
from xlagraph.runs.model import OFTEN, GraphNode, RunExplanation
from xlagraph.runs.pairs.explained import Pairs
from xlagraph.runs.pairs.pairing import Pairing
from xlagraph.runs.pairs.tasks import modules
from xlagraph.runs.pairs.work import Means, captured_graphs, outcomes
from xlagraph.runs.steps.alternation import alternating
from xlagraph.runs.steps.history import history_of
from xlagraph.runs.steps.leading import told_graphs
from xlagraph.runs.steps.spent import Spent
from xlagraph.runs.verdict import run_verdict, stable_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord, SyncRecord
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
    return _explanation(Compared(run, graphs, comparisons, design, history), pairs)


def _explanation(compared: Compared, pairs: Pairs) -> RunExplanation:
    run, history = compared.run, compared.history
    nodes, groups = account_of(compared)
    syncs = [sync for process in run.processes for sync in process.syncs]
    stable = stable_after(syncs, history.steps)
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
            _parts(nodes, compared.design, history.first_step),
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


def _training_from(graphs: Sequence[CapturedGraph], history: History) -> int:
    """The step from which on it trains: the main loop's first, or an earlier one that updates."""
    trains = (graph.step for graph in graphs if weights_of(graph).trained)
    return min(history.first_step, next(trains, history.first_step))


def _parts(nodes: Sequence[GraphNode], design: Design, first_step: int) -> tuple[Message, ...]:
    """What the sorts of step are called, in order of appearance; empty if there is but one.

    What set the program up, and ran no more, is none. What ran often and has no name of its own is
    called by its place, where no other graph of that has one.
    """
    if not any(node.by_design for node in nodes):
        return ()
    kinds = {
        k: node.part
        for k, node in enumerate(nodes)
        if (node.by_design or design.is_first(k)) and not _is_replaced(node, nodes)
        if node.step >= first_step or node.hits + node.unnamed_hits > 0
    }
    places = {nodes[k].call_site for k in kinds}
    for k, node in enumerate(nodes):
        if node.call_site and node.call_site not in places and _runs_often(node):
            kinds[k] = step_at(node.call_site)
    return tuple({words(kinds[k]): kinds[k] for k in sorted(kinds)}.values())


def _runs_often(node: GraphNode) -> bool:
    """Whether a graph without a name is known to end many steps at a line of the program."""
    is_own = node.call_site is not None and not node.call_site.is_library
    is_plain = node.sync_kind == "step" and not node.part and not node.is_small
    return is_own and is_plain and node.hits >= OFTEN


def _is_replaced(node: GraphNode, nodes: Sequence[GraphNode]) -> bool:
    """Whether a graph ran only as the program began, in place of others that come again there.

    Of gradients that begin as zeros the first micro-batch has a graph that no other has.
    """
    here = [one for one in nodes if (one.rank, one.call_site) == (node.rank, node.call_site)]
    is_alone = sum(words(one.part) == words(node.part) for one in here) == 1
    comes_again = any(one.hits for one in here)
    return not node.by_design and is_alone and not node.hits and comes_again


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
