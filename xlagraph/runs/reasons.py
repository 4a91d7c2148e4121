"""Why each graph of a run compiled: its own first cause, or what is seen over several graphs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.kinds import Kind
from xlagraph.cause.model import Cause
from xlagraph.facts.shapes.size_makers import LISTED
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.runs.beside import (
    family,
    of_loops,
    of_most,
    of_new_sizes,
    of_other_dtypes,
    of_other_sizes,
    of_others,
    of_pending_loops,
    of_read_numbers,
    of_reading_loops,
    of_same_words,
)
from xlagraph.runs.by_design.few_sizes import as_few_sizes, as_stages, may_come_of_size
from xlagraph.runs.by_design.odd_batches import as_odd_batch
from xlagraph.runs.causes.carried import as_carried, carried_alone, carried_somewhere
from xlagraph.runs.causes.conditions import AsDecided, decided, read_in_turns
from xlagraph.runs.causes.drawn import AsDrawn, drawn, left_in_turns
from xlagraph.runs.causes.growth import (
    AsLoop,
    as_growth,
    growing,
    growing_inputs,
    is_made_in_library,
    loops_that_read,
    main_line,
    uneven_loops,
)
from xlagraph.runs.causes.lists import AsList
from xlagraph.runs.causes.pending import AsPending, as_reads, left_of_turns
from xlagraph.runs.causes.picked import picked
from xlagraph.runs.causes.shuffled import shuffled
from xlagraph.runs.causes.uneven_turns import recursions, uneven_turns
from xlagraph.runs.causes.unrolled import AsUnrolled
from xlagraph.runs.kinds import (
    BY_DESIGN,
    FIRST_GRAPH,
    GROWING_GRAPH,
    SAME_GRAPH,
    UNEXPLAINED,
    UNLIKE_GRAPH,
)
from xlagraph.runs.model import Meant
from xlagraph.runs.of_lists import (
    PIECES,
    grown_lists,
    joins_of_lists,
    left_of_lists,
    read_of_lists,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.causes.lists import LongerList
    from xlagraph.runs.causes.pending import PendingWork
    from xlagraph.runs.causes.unrolled import UnrolledLoop
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.turns import Turns

    Retell = Callable[[Cause, Sequence[GraphNode]], Cause]

OF_SIZES: dict[Meant, Retell] = {
    Meant.SIZES: as_few_sizes,
    Meant.STAGES: as_stages,
    Meant.ODD: as_odd_batch,
}
"""How a size is said that is meant."""
SIZES = (INPUT_SHAPE, GROWING_INPUT, PYTHON_SIZE)
NOTHING, MUCH = 0.02, 0.2
"""The part of a difference that is next to none of it, and one that is much."""
OFTEN = 3
"""In so many steps at least a graph has to compile beside another one to come of the same."""


class Reason(NamedTuple):
    """What graphs of one group have in common."""

    kind: Kind
    line: SourceLine | None = None
    retell: Retell | None = None
    """How a single step's cause is said for the run."""
    how: str = ""
    """Tells groups of one kind apart that have no cause: ``small``, ``settled``."""


def reasons_of(
    nodes: Sequence[GraphNode],
    turns: Turns,
    lists: Sequence[LongerList],
    pending: Sequence[PendingWork],
    unrolled: Sequence[UnrolledLoop],
    program: ProgramText,
) -> dict[str, Reason]:
    """Digest to reason of all graphs; the arguments are those of `group_nodes`."""
    as_loop = AsLoop(program, nodes)
    over_run: dict[str, Reason] = {}
    reading = loops_that_read(nodes, program)
    for digest, line in uneven_loops(nodes, program, reading).items():
        over_run[digest] = Reason(EXTRA_SUBGRAPH, program.loop_in_step(line) or line, as_loop)
    for digest, line in growing_inputs(nodes, turns).items():
        over_run[digest] = Reason(GROWING_INPUT, line)
    for line, grown in growing(nodes, turns).items():
        if program.loop_in_step(line) not in reading:  # else it ends by what it reads
            over_run |= _grown(line, grown, program)
    over_run |= _entailed(nodes)
    over_run |= _of_sizes(nodes)
    over_run |= _rests(nodes)
    over_run |= _beside_sizes(nodes, over_run)
    for longer in lists:
        if longer.backward:
            over_run |= _carried(longer, lists, nodes, program)
        else:
            over_run |= _listed(longer, nodes, over_run, program)
    for loop in unrolled:
        as_unrolled = AsUnrolled(loop, tuple(nodes), program)
        over_run |= dict.fromkeys(
            as_unrolled.members(), Reason(as_unrolled.kind, loop.line, as_unrolled)
        )
    at_lines: dict[tuple[SourceLine | None, int], Reason] = {}
    for work in pending:
        left = left_of_turns(work, nodes, program) - work.graphs
        reason = Reason(GROWING_GRAPH, work.line, AsPending(work, is_in_ends=bool(left)))
        reason = at_lines.setdefault((work.line, work.more), reason)  # a loop called from two lines
        over_run |= dict.fromkeys(work.graphs | left, reason)
    found = {node.digest: over_run.get(node.digest) or _reason(node) for node in nodes}
    found |= left_of_lists(nodes, found)
    found |= _of_same_pick(nodes, found)
    found |= _picked(nodes, found, program)
    found |= _drawn(nodes, found, program)
    found |= _left_of_draws(nodes, found)
    found |= of_other_dtypes(nodes, found) | of_read_numbers(nodes, found)
    found |= of_loops(nodes, found)
    found |= within_loops(nodes, found, as_loop, reading)
    found |= of_reading_loops(nodes, found, program)
    found |= of_pending_loops(nodes, found, program)
    found |= of_others(nodes, found) | of_other_sizes(nodes, found)
    found |= grown_lists(nodes, found)
    found |= joins_of_lists(nodes, found)
    found |= read_of_lists(nodes, found)
    found |= of_most(nodes, found)
    found |= of_same_words(nodes, found)
    return found | of_new_sizes(nodes, found, SIZES)


def within_loops(
    nodes: Sequence[GraphNode],
    known: Mapping[str, Reason],
    as_loop: AsLoop,
    reading: frozenset[SourceLine],
) -> dict[str, Reason]:
    """Digest to reason of graphs whose pieces stand in loops that read values, where several do.

    Seldom another number of turns is not seen by how large these graphs are.
    """
    found: dict[str, Reason] = {}
    for node in nodes:
        reason = known[node.digest]
        loop = as_loop.program.loop_in_step(reason.line)
        if reason.kind in PIECES and not (node.warm_up or reason.retell) and loop in reading:
            found[node.digest] = Reason(EXTRA_SUBGRAPH, loop, as_loop)
    return found if len(found) >= OFTEN else {}


def own_reasons(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """Digest to reason of all graphs, of each by itself."""
    return {node.digest: _reason(node) for node in nodes}


def _of_same_pick(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of pieces that differ at a line that picks one of two values elsewhere.

    Gradients that flow further beside such a pick flow through what it took.
    """
    picks = {one.line: one for one in known.values() if one.kind is OTHER_OPERAND and one.line}
    found: dict[str, Reason] = {}
    for node in nodes:
        reason = known[node.digest]
        lines = [reason.line] if reason.kind in PIECES else []
        if reason.kind is LONGER_BACKWARD and node.explanation:
            lines = [main_line(c) for c in node.explanation.causes if c.kind is OTHER_OPERAND]
        pick = next((picks[line] for line in lines if line in picks), None)
        if pick and not (node.warm_up or reason.retell):
            found[node.digest] = pick
    return found


def _picked(
    nodes: Sequence[GraphNode], known: Mapping[str, Reason], program: ProgramText
) -> dict[str, Reason]:
    """Digest to reason of graphs that differ in which functions a loop runs."""
    causes = [
        (node, main_cause(node))
        for node in nodes
        if not node.warm_up and known[node.digest].kind in PIECES and not known[node.digest].retell
    ]
    return {d: Reason(EXTRA_SUBGRAPH, one.loop, one) for d, one in picked(causes, program).items()}


def _drawn(
    nodes: Sequence[GraphNode], known: Mapping[str, Reason], program: ProgramText
) -> dict[str, Reason]:
    """Digest to reason of graphs that differ in what Python draws, shuffles or leaves out."""
    told = [
        (node, main_cause(node))
        for node in nodes
        if not node.warm_up and node.explanation and node.explanation.causes
    ]
    causes = [(node, cause) for node, cause in told if not known[node.digest].retell]
    turns = [
        (node, cause)
        for node, cause in told
        if not known[node.digest].retell or isinstance(known[node.digest].retell, AsLoop)
    ]
    turned = uneven_turns(turns, program)
    uneven = {d: Reason(EXTRA_SUBGRAPH, one.loop, one) for d, one in turned.items()}
    uneven |= {
        d: Reason(EXTRA_SUBGRAPH, one.call, one) for d, one in recursions(turns, program).items()
    }
    mixed = {
        d: Reason(OTHER_OPERAND, one.shuffle, one) for d, one in shuffled(causes, program).items()
    }
    causes = [(node, one) for node, cause in causes for one in _with_forward(node, cause)]
    left = _without_cause(nodes, known)
    picks = {d: Reason(one.kind, one.draw, one) for d, one in drawn(causes, program, left).items()}
    in_loops = {one.retell.loop: one for one in picks.values() if isinstance(one.retell, AsDrawn)}
    uneven |= {d: in_loops[one.loop] for d, one in turned.items() if one.loop in in_loops}
    known_causes = [(node, cause) for node, cause in causes if node.digest not in mixed]
    asked = {
        d: Reason(REPLACED_SUBGRAPH, one.branch, one)
        for d, one in decided(known_causes, program).items()
    }
    read = read_in_turns(nodes, [node for node, _ in turns], program)
    left_out = {d: Reason(REPLACED_SUBGRAPH, one.read, one) for d, one in read.items()}
    return asked | uneven | mixed | picks | left_out


def _left_of_draws(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs without a cause whose pieces stand in turns that Python decides.

    By a draw, or by another condition.
    """
    draws = {d: one.retell for d, one in known.items() if isinstance(one.retell, AsDrawn)}
    asks = {d: one.retell for d, one in known.items() if isinstance(one.retell, AsDecided)}
    left = _without_cause(nodes, known)
    drawn_there = left_in_turns(nodes, draws, left).items()
    asked_there = left_in_turns(nodes, asks, left).items()
    found = {digest: Reason(REPLACED_SUBGRAPH, one.branch, one) for digest, one in asked_there}
    return found | {digest: Reason(one.kind, one.draw, one) for digest, one in drawn_there}


def _without_cause(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> list[GraphNode]:
    return [
        node
        for node in nodes
        if known[node.digest].kind is UNEXPLAINED and not (node.warm_up or known[node.digest].how)
    ]


def _with_forward(node: GraphNode, main: Cause) -> tuple[Cause, ...]:
    """A graph's main cause; where gradients flow further, all that differs with it.

    They flow on through a value that Python has picked in the forward pass.
    """
    is_backward = main.kind is LONGER_BACKWARD and node.explanation
    return node.explanation.causes if is_backward and node.explanation else (main,)


def _grown(
    line: SourceLine | None, grown: Sequence[GraphNode], program: ProgramText
) -> dict[str, Reason]:
    """Digest to reason of those of these growing graphs whose main cause it is."""
    outcomes = [node.explanation for node in grown if node.explanation]
    carried = carried_alone((one for outcome in outcomes for one in outcome.causes), program)
    if carried is None and any(one.causes[0].kind is LONGER_BACKWARD for one in outcomes):
        carried = carried_somewhere(line, program)

    def retell(cause: Cause, _: Sequence[GraphNode]) -> Cause:
        return as_growth(cause, grown)

    causes = {n.digest: n.explanation.causes[0] for n in grown if n.explanation}
    return {
        digest: Reason(GROWING_GRAPH, carried.line if carried else line, carried or retell)
        for digest, cause in causes.items()
        if main_line(cause) == line and (cause.kind.may_grow or cause.kind.is_piece)
    }


def _listed(
    longer: LongerList,
    nodes: Sequence[GraphNode],
    known: Mapping[str, Reason],
    program: ProgramText,
) -> dict[str, Reason]:
    """Digest to reason of the graphs of a list that grows.

    None where more is known of steps that have one graph each.
    """
    members = [node for node in nodes if node.digest in longer.graphs and not node.warm_up]
    if not longer.is_cut and any(node.digest in known for node in members):
        return {}
    causes = (n.explanation.causes[0] for n in members if n.explanation and n.explanation.causes)
    lines = Counter(line for line in map(main_line, causes) if line and not line.is_library)
    common = lines.most_common(1)
    line = longer.read or (common[0][0] if common else None)
    reason = Reason(GROWING_GRAPH, line, AsList(longer, program))
    return {node.digest: reason for node in members}


def _carried(
    longer: LongerList,
    lists: Sequence[LongerList],
    nodes: Sequence[GraphNode],
    program: ProgramText,
) -> dict[str, Reason]:
    """Digest to reason of the graphs of a backward pass that grows.

    What it computes more is known of any list of that pass: an epoch may end one and begin another.
    """
    alike = [one.graphs for one in lists if one.backward == longer.backward]
    members = frozenset[str]().union(*alike)
    outcomes = [n.explanation for n in nodes if n.digest in members and n.explanation]
    seen = (one for outcome in outcomes for cause in outcome.causes for one in cause.evidence)
    lines = dict.fromkeys(line for one in seen for line in one.sources)
    carried = as_carried(longer.backward, program, lines)
    reason = Reason(GROWING_GRAPH, carried.line, carried)
    return {n.digest: reason for n in nodes if n.digest in longer.graphs and not n.warm_up}


def _entailed(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """Digest to reason of graphs that come of buckets which other graphs carry over the step.

    Tensors waited in buckets as they were synced too: what waits is updated in a later step, and
    only then gets its optimizer state.
    """
    first = {
        node.digest: node.explanation.causes[0].kind
        for node in nodes
        if not node.warm_up and node.explanation and node.explanation.causes
    }
    return {
        node.digest: Reason(kind)
        for kind in set(first.values())
        for node in nodes
        if node.waits and node.digest in first and first[node.digest].id in kind.entails
    }


def _of_sizes(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """Graphs in which pieces come or go with the size of an input that others have too.

    A slice of the whole is no slice, what is never filled up is not padded, and a loop over the
    input has as many turns, with tensors for each. A library makes its tensors as long as what it
    is given.
    """
    causes = {
        node: node.explanation.causes for node in nodes if node.explanation and not node.warm_up
    }
    sized = [
        (found.index(cause), main_line(cause))
        for found in causes.values()
        for cause in found
        if cause.kind is INPUT_SHAPE
    ]
    times = Counter(line for _, line in sized)
    lines = {line for place, line in sized if place == 0 or times[line] >= OFTEN}
    return {
        node.digest: Reason(INPUT_SHAPE, main_line(cause))
        for node, found in causes.items()
        for cause in found[1:]
        if cause.kind is INPUT_SHAPE and main_line(cause) in lines
        if may_come_of_size(found[0]) or is_made_in_library(found[0])
    }


def _beside_sizes(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Graphs of a step that are like another one of it, at a line where those change their size.

    Of two lists that grow together one graph is compared with the list before, and the other one
    with the first: what they differ in is no reason to compile again.
    """
    by_digest = {node.digest: node for node in nodes}
    lines = {
        reason.line
        for node in nodes
        if not node.warm_up
        and (reason := known.get(node.digest) or _reason(node)).kind is PYTHON_SIZE
    }
    found = {}
    for node in nodes:
        beside, looped = by_digest.get(node.nearest), known.get(node.digest)
        if not beside or not looped or looped.kind is not EXTRA_SUBGRAPH:
            continue
        is_beside = (beside.step, beside.call_site) == (node.step, node.call_site)
        if is_beside and looped.line in lines:
            found[node.digest] = Reason(PYTHON_SIZE, looped.line)
    return found


def _rests(nodes: Sequence[GraphNode]) -> dict[str, Reason]:
    """What was left of a step whose values were read before it ended, with the last read."""
    reads: dict[tuple[int, int], Reason] = {}
    for node in nodes:
        if node.sync_kind == "value" and not node.warm_up:
            reason = _reason(node)
            if reason.kind is EARLY_EXECUTION:
                reads[node.rank, node.step] = reason
    sizes = {node.digest: node.instructions for node in nodes}
    return {
        node.digest: reads[node.rank, node.step]
        for node in nodes
        if node.sync_kind == "step"
        and not node.warm_up
        and (node.rank, node.step) in reads
        and node.instructions < sizes.get(node.nearest, 0)
    }


def _reason(node: GraphNode) -> Reason:
    explanation = node.explanation
    if node.by_design:
        return Reason(BY_DESIGN)
    if node.is_small:
        return Reason(FIRST_GRAPH, how="small")
    if node.meant is Meant.SETTLED:
        return Reason(UNEXPLAINED, how=Meant.SETTLED)
    if explanation is None:
        return _reason_of_first(node)
    if not explanation.causes:
        if node.warm_up and not explanation.same:
            return Reason(FIRST_GRAPH)
        return (
            Reason(SAME_GRAPH) if explanation.same else Reason(UNEXPLAINED, explanation.left.line)
        )
    cause = main_cause(node)
    if node.warm_up and not node.meant and not cause.expected:
        return Reason(FIRST_GRAPH)
    if node.begins_reading and not node.meant and cause.kind is not EARLY_EXECUTION:
        return Reason(EARLY_EXECUTION, node.call_site, as_reads)
    line = None if cause.kind.anywhere else main_line(cause)
    if node.meant in OF_SIZES:
        return Reason(cause.kind, line or node.call_site, OF_SIZES[node.meant])
    return Reason(cause.kind, line, as_reads if cause.kind is EARLY_EXECUTION else None)


def _reason_of_first(node: GraphNode) -> Reason:
    """Why a graph compiled that was compared with none."""
    if node.warm_up:
        return Reason(FIRST_GRAPH, node.call_site if node.another_part else None)
    if node.sync_kind == "value":
        return Reason(EARLY_EXECUTION, node.call_site, as_reads)
    return Reason(UNLIKE_GRAPH, node.call_site)


def main_cause(node: GraphNode, kind: Kind | None = None, line: SourceLine | None = None) -> Cause:
    """The first; of a change that is made on purpose the first that can be.

    `kind`, `line`: those of its group, if they are known.
    """
    causes = node.explanation.causes if node.explanation else ()
    if node.meant in OF_SIZES:
        kind = INPUT_SHAPE
    elif node.meant is Meant.EARLY:
        return next((one for one in causes if not one.expected), causes[0])
    elif node.meant and node.meant is not Meant.SETTLED:
        chosen = [one for one in causes if not one.expected]  # none where a stage brings state
        first = (chosen or causes)[0]
        meant = (one for one in chosen if one.kind.may_be_meant and not _is_beside(one, first))
        return next(meant, first)
    alike = [one for one in causes if kind and family(one.kind) is family(kind)]
    there = [one for one in alike if main_line(one) == line]
    own = [one for one in there or causes if one.kind is kind]
    return next(iter(own or there or causes))


def _is_beside(piece: Cause, first: Cause) -> bool:
    """Whether a piece comes of a longer list, or is next to nothing beside what is much."""
    is_little = piece.share <= NOTHING and first.share >= MUCH
    return piece.kind.is_piece and (is_little or first.short == LISTED.short)
