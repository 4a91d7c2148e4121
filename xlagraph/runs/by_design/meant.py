"""Changes of a program's steps that somebody makes on purpose, and what settles in its first turns.

What is updated, which pieces are computed: that is switched on purpose. A number, a type, a tensor
kept alive is not, and a size only as one of few (`few_sizes`) or of a stage (`size_stages`). Such a
change is no problem where it comes once and stays, a phase of the training; or where it comes in a
rhythm from the first steps on, or in every n-th step (`periodic`). It costs one compile, and is
told.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.rules.distributed.buckets import BUCKET_CARRY
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.inputs.second_input import SECOND_INPUT
from xlagraph.rules.module.header import DONORS
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.replaced_subgraph import FORM_SHORT
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED
from xlagraph.rules.training.rematerialization import REMATERIALIZATION
from xlagraph.runs.by_design.choices import brings_state, is_one_of_two, phase_of
from xlagraph.runs.by_design.few_sizes import begins_stage, brings_size, is_one_of_few_sizes
from xlagraph.runs.by_design.periodic import turns_of_part
from xlagraph.runs.by_design.size_stages import is_size_of_stage
from xlagraph.runs.graphs.weights import keeps_new_gradients, trains_new
from xlagraph.runs.model import Meant
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.history import History

LASTING = 3
"""A phase lasts so many steps at least."""
LASTING_STAGE = 8
"""One in which more changes than what a person switches lasts so many."""
FEW = 3
"""More changes than these at one place are no phases."""
MOST = 0.5
"""This share of a difference is most of it."""
MANY = 16
"""Graphs at one place that are too many for a few phases, with what settles in each."""
BESIDE = frozenset({Section.LIVE, Section.HEADER})
"""What comes along: other pieces keep other tensors alive, have other state, and other donors."""
BY_VALUE = frozenset({Section.VALUES, Section.INPUTS})
"""Sizes, numbers and types: nobody means these to make another graph, but for few sizes. Two
tensors that begin as one are no such thing: that kind may be meant."""
SWITCHED_ONCE = frozenset({REMATERIALIZATION})
"""Switched on purpose only where it comes once and stays: in some steps only it is a mistake."""


def how_meant(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    history: History,
    parts: Mapping[int, int],
) -> Meant:
    """How the change that makes a graph comes, if it is made on purpose.

    `parts`: what comes in every n-th step.
    """
    comparison = comparisons[number]
    outcome, other = comparison.outcome, comparison.number
    if outcome is None or other is None or not comparison.is_within:
        return Meant.NOT
    if is_one_of_few_sizes(number, graphs, comparisons, turns_of_part(number, design, parts)):
        return Meant.SIZES
    if is_size_of_stage(number, graphs, comparisons, design.ran_at_place(number)):
        return Meant.STAGES
    if parts.get(number) == number:
        return Meant.RHYTHM
    is_on_purpose = _is_on_purpose(outcome)
    if (
        is_on_purpose
        and design.is_in_cycle(number)
        and _is_early(number, graphs, comparisons, history)
    ):
        return Meant.RHYTHM
    is_switched = is_on_purpose or _is_mostly_on_purpose(outcome)
    lasting = LASTING if is_switched else LASTING_STAGE
    is_switched = is_switched or _is_switched_once(outcome)
    is_switched = is_switched or _trains_others(outcome, graphs[number], graphs[other])
    begins = partial(begins_stage, number, graphs, comparisons, design.turns_of_sort(number))
    is_switched = is_switched and outcome.proved
    if is_switched and (_is_phase(number, graphs, comparisons, design, lasting) or begins()):
        return Meant.PHASE
    if not history.began_late and _is_piece(outcome) and is_one_of_two(number, comparisons, design):
        return Meant.CHOICE
    if not history.began_late and _has_settled(number, graphs, comparisons, design):
        return Meant.SETTLED
    return Meant.NOT


def _has_settled(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
) -> bool:
    """Whether a part of the program settled with a graph, and it is not known what makes it.

    Of one that ran only in the first turn also of the one that took its place.
    """
    sync, comparison = graphs[number].sync, comparisons[number]
    outcome, other = comparison.outcome, comparison.number
    if sync is None or not sync.ends_step or outcome is None:
        return False
    if other is not None and trains_new(graphs[number], graphs[other]):
        return design.settles(number)
    if _is_of_values(outcome):
        return False
    if any(cause.kind is BUCKET_CARRY for cause in outcome.causes):
        return False  # what waits in a bucket is known from the capture's records
    asked = (k for k in (number, design.successor(number)) if k is not None)
    is_unsure = any(_is_unsure(k, graphs, comparisons) for k in asked)
    return is_unsure and design.settles(number)


def settles(outcome: Outcome, period: int) -> bool:
    """Whether a graph of a cycle's second turn differs from the first's as what settles does.

    State, gradients and copies that the first turn makes are inputs from the second on, and a copy
    that shared its tensor has one of its own once one of the two is updated. In a cycle of one step
    only what is known as such, or not explained, or comes with copies.
    """
    copies_part = any(cause.kind is SECOND_INPUT for cause in outcome.causes)
    if outcome.proved and period == 1 and not copies_part:
        return all(cause.expected for cause in outcome.causes)
    return not changes_values(outcome) and all(
        comes_along(cause) or cause.kind is SHARED_SCALAR for cause in outcome.causes
    )


def reorders_outputs(outcome: Outcome) -> bool:
    """Whether a graph gives back the same in another order, and state beside it, and no more."""
    return outcome.proved and all(
        cause.expected or cause.kind is OUTPUT_ORDER for cause in outcome.causes
    )


def takes_what_is_left(outcome: Outcome) -> bool:
    """Whether values that one graph computes come into the other ready-made; no number differs."""
    causes = outcome.causes
    left = [one for one in causes if one.kind is EARLY_EXECUTION or one.short == FORM_SHORT]
    return bool(left) and not any(is_value(one) for one in causes if one not in left)


def gives_less_away(outcome: Outcome) -> bool:
    """Whether only the buffers differ that are given away: a copy of the tensors shares them.

    A snapshot of the weights, or an average that begins with them, makes no new tensor until one of
    the two is updated.
    """
    return outcome.proved and bool(outcome.causes) and all(c.kind is DONORS for c in outcome.causes)


def completes_what_is_left(outcome: Outcome, is_elsewhere: Callable[[SourceLine], bool]) -> bool:
    """Whether a graph computes what another part of the program left, or begins something anew."""
    own = [cause for cause in outcome.causes if not cause.expected]
    return (
        outcome.proved
        and bool(own)
        and all(
            cause.kind is INITIAL_STATE
            or (cause.kind is LIVE_TENSOR and cause.place.line and is_elsewhere(cause.place.line))
            for cause in own
        )
    )


def changes_values(outcome: Outcome) -> bool:
    """Whether a size, a number or a type is another one; state comes with numbers of its own."""
    brings_state = any(cause.expected for cause in outcome.causes)
    return any(
        is_value(cause) and not (brings_state and cause.kind is SHARED_SCALAR)
        for cause in outcome.causes
    )


def _is_unsure(
    number: int, graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison]
) -> bool:
    """Whether it is not known why a graph is another one.

    A proof says why if it compares all that one of the two gives back. A part of a step that a
    value needed says nothing about a step in which none was read.
    """
    outcome, other = comparisons[number].outcome, comparisons[number].number
    if outcome is None or other is None or outcome.same or _is_of_values(outcome):
        return False
    is_whole = outcome.proved and not (outcome.scope.a and outcome.scope.b)
    sync = graphs[other].sync
    return not is_whole or (sync is not None and sync.kind == "value")


def _is_of_values(outcome: Outcome) -> bool:
    """Whether sizes, numbers or types make most of a difference: that needs no proof."""
    values = (c for c in outcome.causes if is_value(c) and c.short != FORM_SHORT)
    return sum(one.share for one in values) >= MOST


def is_value(cause: Cause) -> bool:
    """Whether a number, a size or a type is another one that nobody means."""
    return cause.kind.section in BY_VALUE and not cause.kind.may_be_meant


def comes_along(cause: Cause) -> bool:
    """Whether it is switched on purpose, or comes with what is."""
    return cause.kind.may_be_meant or _is_beside(cause)


def _is_beside(cause: Cause) -> bool:
    return cause.expected or cause.kind.section in BESIDE


def _is_piece(outcome: Outcome) -> bool:
    """Whether pieces come and go, proved, and what is updated and taken in stays."""
    own = [one for one in outcome.causes if not _is_beside(one)]
    return (
        outcome.proved
        and bool(own)
        and all(one.kind.is_piece and one.kind.may_be_meant for one in own)
    )


def _is_on_purpose(outcome: Outcome) -> bool:
    causes = outcome.causes
    has_own = any(cause.kind.may_be_meant and not cause.expected for cause in causes)
    return has_own and all(map(comes_along, causes))


def _is_switched_once(outcome: Outcome) -> bool:
    """Whether what differs is checkpointing, for one, and nothing that nobody means."""
    return any(cause.kind in SWITCHED_ONCE for cause in outcome.causes) and all(
        comes_along(cause) or cause.kind in SWITCHED_ONCE for cause in outcome.causes
    )


def _is_mostly_on_purpose(outcome: Outcome) -> bool:
    """Whether pieces make most of a difference, and all else is numbers beside them.

    Where pieces come once and stay there is another graph anyway: such a number costs no compile.
    """
    own = [one for one in outcome.causes if one.kind.may_be_meant and not one.expected]
    rest = [one for one in outcome.causes if not comes_along(one)]
    return (
        all(one.kind.is_piece for one in own)
        and all(one.kind.section is Section.VALUES for one in rest)
        and sum(one.share for one in own) > MOST
    )


def _trains_others(outcome: Outcome, graph: CapturedGraph, other: CapturedGraph) -> bool:
    """Whether other tensors are trained, whatever else comes with it: larger images, new state.

    Where that comes once and stays there is another graph anyway. The first micro-batch of an
    update makes the gradients of these tensors, and updates none.
    """
    if any(cause.kind is NEWLY_UPDATED for cause in outcome.causes):
        return True
    is_kept = any(cause.kind is LIVE_TENSOR for cause in outcome.causes)
    return is_kept and all(map(comes_along, outcome.causes)) and keeps_new_gradients(graph, other)


def _is_early(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    history: History,
) -> bool:
    """Whether it came in one of the first two turns of its place: nothing compiled later.

    Turns that only brought state are left out of account.
    """
    graph = graphs[number]
    if graph.sync is None:
        return False
    place = call_place(graph.process, graph.sync)
    brought = sum(
        one.sync is not None
        and call_place(one.process, one.sync) == place
        and comparison.outcome is not None
        and brings_state(comparison.outcome)
        for one, comparison in zip(graphs[:number], comparisons[:number], strict=True)
    )
    return history.turns.number(graph.process, graph.sync) - brought < 2


def _is_phase(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    lasting: int,
) -> bool:
    """Whether a graph came in place of others that never ran again, and stayed for so long.

    What differs in sizes alone from a graph that comes again, as an odd batch, is of its phase.
    """
    turns, seen = design.turns_of_sort(number)
    if len(seen) > MANY or None in seen or number not in seen:
        return False
    begin = turns.index(number)
    if {*turns[:begin]} & {*turns[begin:]}:
        return False
    phases: dict[int, int] = {}
    for one in (k for k in seen if k is not None):
        before, other = _only_first(one, design), comparisons[one].number
        is_beside = other in phases and other in turns[turns.index(one) :]
        if is_beside and brings_size(one, graphs, comparisons, seen):
            before = other
        root = phase_of(one, comparisons) if before is None else before
        phases[one] = phases.get(root, root)
    lasted = 0
    for graph in turns[begin:]:
        if graph is None or phases[graph] != phases[number]:
            break
        lasted += 1
    return lasted >= lasting and len(set(phases.values())) - 1 <= FEW


def _only_first(number: int, design: Design) -> int | None:
    """What ran once before a graph at its place, and makes optimizer state that this takes in.

    Both belong to one phase, whatever else comes along: its optimizer is a new one.
    """
    turns = design.turns_of_sort(number).turns
    begin = turns.index(number) if number in turns else 0
    first = turns[begin - 1] if begin else None
    if first is None or turns.count(first) > 1 or turns.count(number) < LASTING:
        return None
    return first if design.brings_state(first, number) else None
