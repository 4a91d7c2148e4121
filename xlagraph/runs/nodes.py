"""What is known of one graph of a run before it is said over the run: is it warm-up, or meant."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from xlagraph.message import say
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT
from xlagraph.runs.by_design.few_sizes import SIZES
from xlagraph.runs.by_design.meant import (
    changes_values,
    completes_what_is_left,
    gives_less_away,
    reorders_outputs,
    settles,
    takes_what_is_left,
)
from xlagraph.runs.causes.kept import held_in_places
from xlagraph.runs.graphs.context import own_frame, step_at
from xlagraph.runs.graphs.places import (
    begins_reading,
    begins_something,
    is_at_own_line,
    is_first,
    is_second,
)
from xlagraph.runs.handed_on import with_handed_on
from xlagraph.runs.model import OFTEN, GraphNode, Meant
from xlagraph.runs.steps.order import Phase
from xlagraph.runs.steps.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.steps.history import History


def node_of(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparison: Comparison,
    nodes: Sequence[GraphNode],
    design: Design,
    history: History,
    meant: Meant = Meant.NOT,
) -> GraphNode:
    """A graph with what it is compared with; `nodes` are those before it."""
    graph = graphs[number]
    cost = history.turns.costs[graph.record.digest]
    begins_sort = design.begins_sort(number)
    is_training = graph.step > history.first_step
    is_early = is_first(graph, history) or is_second(graph, history)
    has_line = is_early and is_training and is_at_own_line(graph, history)
    has_line = has_line and comparison.number is None
    phase = _phase(number, comparison, design)
    outcome = comparison.outcome
    if outcome is not None and comparison.number is not None:
        outcome = with_handed_on(outcome, graphs[comparison.number], graph)
        comparison = replace(comparison, outcome=outcome)
    adds = (
        cost.hits >= OFTEN and outcome is not None and design.adds_kept_gradients(number, outcome)
    )
    by_design = begins_sort or has_line or phase is not None or adds
    call_site = own_frame(graph.sync.call_site) if graph.sync else None
    here = step_at(call_site)
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
        and not _has_other_turns(graph, graphs, comparison)
        and not _has_other_size(graph, graphs, comparison),
        warm_up=warm_up or meant is not Meant.NOT,
        meant=Meant.NOT if warm_up else meant,
        another_part=graph.step > history.first_step and is_first(graph, history),
    )


def _has_other_size(
    graph: CapturedGraph, graphs: Sequence[CapturedGraph], comparison: Comparison
) -> bool:
    """Whether a line that reads a value has read it before, of a batch of another size."""
    if comparison.number is None or comparison.outcome is None:
        return False
    kinds = comparison.outcome.proved_kinds
    return graphs[comparison.number].site == graph.site and INPUT_SHAPE in kinds <= SIZES


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
