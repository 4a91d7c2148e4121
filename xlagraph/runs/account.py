"""What a run comes to: which of its graphs are meant, and what the others have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.rule import left_out
from xlagraph.runs.by_design.early import with_early
from xlagraph.runs.by_design.first_copies import with_first_copies
from xlagraph.runs.by_design.known_sizes import with_known_sizes
from xlagraph.runs.by_design.meant import how_meant
from xlagraph.runs.by_design.odd_batches import with_odd_batches
from xlagraph.runs.by_design.periodic import periodic_parts
from xlagraph.runs.by_design.quiet import with_quiet
from xlagraph.runs.by_design.small import small_graphs
from xlagraph.runs.by_design.stages import with_stages
from xlagraph.runs.by_design.untold import without_notes
from xlagraph.runs.causes.blocks import block_groups, drawn_again, skipped_blocks
from xlagraph.runs.causes.hooks import attached_again, hook_groups, with_collecting
from xlagraph.runs.causes.lists import longer_lists
from xlagraph.runs.causes.pending import pending_work
from xlagraph.runs.causes.rekeyed import with_rekeyed
from xlagraph.runs.causes.shuffled import in_drawn_order
from xlagraph.runs.causes.stated import with_statements
from xlagraph.runs.causes.unrolled import unrolled_loops
from xlagraph.runs.causes.untyped import with_makers
from xlagraph.runs.graphs.context import program_text
from xlagraph.runs.groups import group_nodes, groups_by, introduced, with_source
from xlagraph.runs.handed_on import with_made_anew
from xlagraph.runs.model import CauseGroup, GraphNode, Meant, failures, ranked
from xlagraph.runs.nodes import node_of
from xlagraph.runs.of_lists import with_history
from xlagraph.runs.read_sizes import with_counts, with_reads
from xlagraph.runs.reasons import own_reasons
from xlagraph.runs.slight import with_slight
from xlagraph.runs.verdict import stable_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.run.reader import Run
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.causes.hooks import Attached
    from xlagraph.runs.causes.lists import LongerList
    from xlagraph.runs.causes.pending import PendingWork
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.steps.history import History


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The graphs of a run, each explained by the nearest earlier one."""

    run: Run
    graphs: Sequence[CapturedGraph]
    comparisons: Sequence[Comparison]
    design: Design
    history: History


class Account(NamedTuple):
    """What is said of each graph, and of all that have one reason."""

    nodes: list[GraphNode]
    groups: tuple[CauseGroup, ...]


def account_of(compared: Compared) -> Account:
    """Which graphs are meant, and why the others compiled.

    What is seen over several graphs alone is left out, with a `RuleWarning`, where that fails.
    """
    try:
        found = _over_the_run(compared)
    except Exception as error:  # noqa: BLE001 - whatever it stumbles on
        left_out("what is seen over several graphs", error)
        found = _of_single_graphs(compared)
    groups = introduced(with_source(found.groups, compared.run), found.nodes)
    return Account(found.nodes, groups)


def _of_single_graphs(compared: Compared) -> Account:
    """Each graph by what it and the one before it differ in."""
    design, history = compared.design, compared.history
    nodes: list[GraphNode] = []
    for k, comparison in enumerate(compared.comparisons):
        nodes.append(node_of(k, compared.graphs, comparison, nodes, design, history))
    return Account(nodes, groups_by(own_reasons(nodes), nodes, began_late=history.began_late))


def _over_the_run(compared: Compared) -> Account:
    growth = _growth(compared)
    program = program_text(compared.run.processes)
    parts = periodic_parts(compared.graphs, compared.comparisons, compared.design)
    nodes = _with_meant(compared, growth, _first_look(compared, growth, parts), parts, program)
    return _grouped(compared, growth, without_notes(nodes, compared.design), program)


@dataclass(frozen=True, slots=True, eq=False)
class _Growth:
    """What goes on growing over a run."""

    pending: Sequence[PendingWork]
    attached: Sequence[Attached]
    lists: Sequence[LongerList]
    grown: frozenset[str]
    """Digests of graphs with work that piles up."""
    never_meant: frozenset[str]
    """Digests of graphs whose reason goes on, whatever else is seen of them."""


def _growth(compared: Compared) -> _Growth:
    graphs, turns = compared.graphs, compared.history.turns
    pending = pending_work(graphs, turns)
    attached = attached_again(graphs)
    lists = longer_lists(graphs, turns)
    again = [one.digests for one in attached] + [one.graphs for one in lists if one.backward]
    grown = frozenset[str]().union(*(work.graphs for work in pending))
    return _Growth(pending, attached, lists, grown, frozenset[str]().union(*again))


def _first_look(compared: Compared, growth: _Growth, parts: Mapping[int, int]) -> list[GraphNode]:
    """The graphs, each with how it is meant by itself and by what came before."""
    graphs, design, history = compared.graphs, compared.design, compared.history
    small = small_graphs(graphs, design, history)
    nodes: list[GraphNode] = []
    for k, comparison in enumerate(compared.comparisons):
        meant = how_meant(k, graphs, compared.comparisons, design, history, parts)
        node = node_of(k, graphs, comparison, nodes, design, history, meant)
        if k in small and not node.warm_up:
            node = replace(node, warm_up=True, is_small=True)
        if node.digest in growth.grown or (node.meant and node.digest in growth.never_meant):
            node = replace(node, warm_up=False, by_design=False, meant=Meant.NOT)
        nodes.append(node)
    return nodes


def _with_meant(
    compared: Compared,
    growth: _Growth,
    nodes: list[GraphNode],
    parts: Mapping[int, int],
    program: ProgramText,
) -> list[GraphNode]:
    """The graphs with what is seen to be meant over the whole run."""
    graphs, design, history = compared.graphs, compared.design, compared.history
    comparisons, steps = compared.comparisons, history.steps
    going_on = growth.grown | growth.never_meant
    last = _last_compile(compared, nodes)
    since = 0 if last is None else steps - 1 - last
    nodes = with_known_sizes(nodes, graphs, comparisons, design, parts)
    nodes = with_odd_batches(nodes, graphs, comparisons, design, going_on, since)
    nodes = with_first_copies(nodes, graphs, comparisons, design)
    if failures(compared.run):
        return nodes
    going_on |= in_drawn_order(nodes, program)
    nodes = with_stages(nodes, graphs, design, going_on, steps)
    last = _last_compile(compared, nodes)
    nodes = with_early(nodes, graphs, comparisons, design, history, going_on, last)
    return with_quiet(nodes, history, going_on, last)


def _last_compile(compared: Compared, nodes: Iterable[GraphNode]) -> int | None:
    """The last step in which something compiled, but for a part of the program that ends there."""
    ended = {node.digest for node in nodes if node.another_part and node.warm_up}
    syncs = [sync for process in compared.run.processes for sync in process.syncs]
    return stable_after(syncs, compared.history.steps, ended)


def _grouped(
    compared: Compared, growth: _Growth, nodes: list[GraphNode], program: ProgramText
) -> Account:
    """The graphs by their reasons; what several of them show is asked first."""
    run, graphs, history = compared.run, compared.graphs, compared.history
    open_nodes = [node for k, node in enumerate(nodes) if not compared.design.keeps_cycle(k)]
    skipped = skipped_blocks(graphs, open_nodes, history.turns.followed)
    blocks = block_groups(skipped, nodes, program)
    told = {digest for group in blocks for digest in group.graphs}
    nodes = [
        replace(node, warm_up=False, meant=Meant.NOT) if node.digest in told else node
        for node in nodes
    ]
    again = drawn_again(skipped, graphs, nodes, history.first_step)
    nodes = [replace(node, warm_up=True) if node.digest in again else node for node in nodes]
    others = [node for node in nodes if node.digest not in told]
    hooks = hook_groups(growth.attached, others, run.processes)
    told |= {digest for group in hooks for digest in group.graphs}
    rest = group_nodes(
        [node for node in nodes if node.digest not in told],
        history.turns,
        growth.lists,
        growth.pending,
        unrolled_loops(graphs, program),
        program,
        began_late=history.began_late,
    )
    groups = ranked((*blocks, *hooks, *rest))
    groups = with_collecting(groups, nodes, graphs, run.processes)
    groups = with_rekeyed(groups, run, nodes, history.first_step)
    groups = with_source(with_statements(groups, run, graphs), run)
    groups = with_reads(with_makers(groups, run.processes), nodes, run.processes, program)
    groups = with_history(with_made_anew(with_counts(groups, program)))
    groups, nodes = with_slight(groups, nodes, history.steps)
    return Account(nodes, groups)
