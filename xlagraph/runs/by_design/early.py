"""Few graphs that came early in a run and only ran again since, in whatever order.

Sizes that take turns by no rule, a sampler now and then, stages that overlap: what the steps of one
place show may say nothing, while the whole run says that no more is coming. Where nothing compiled
in its longer part, and few graphs are left that nobody has accounted for, they are told and are no
alarm: each cost its compile once, and the training goes on without.

Pieces of which one or the other is computed, each often, are two branches that somebody wrote.
Python numbers that are equal in some of them only are no alarm then, for they make no third graph;
nor is one that is 0 or 1 in some, and goes on as any other number in the rest.
An alarm stays what a person hardly means, until compiling has ended (`quiet`): another number, an
index or a type in the graph, a value read within a step, an update that is skipped, what waits in a
bucket, an order of collectives, or one that Python draws (`shuffled`), a loop of many lengths; and
in a training the size of a batch between others (but see `odd_batches`), or one that is the
exception, until many steps have shown that no more sizes come.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.rules.distributed.buckets import BUCKET_CARRY
from xlagraph.rules.effects.effect_order import EFFECT_ORDER
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.replaced_subgraph import FORM_SHORT
from xlagraph.rules.shapes.layout import LAYOUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.newly_updated import SKIPPED_UPDATE
from xlagraph.runs.by_design.few_sizes import BESIDE, SIZES, has_rule
from xlagraph.runs.by_design.meant import MOST, comes_along, is_value
from xlagraph.runs.by_design.sorts import Part
from xlagraph.runs.causes.growth import MANY
from xlagraph.runs.graphs.input_sizes import is_of_batch, sizes_apart
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.history import History
    from xlagraph.runs.steps.turns import Turns

PACE = 3
"""So many more graphs would have come at the pace until then: that none did is no accident."""
FEW = 6
"""More graphs than these that nobody has accounted for are no set that somebody meant."""
MORE, MUCH_LONGER = 12, 4
"""So many may be one where nothing compiled in so many times as many steps as it took until then:
a network of several widths, each with its evaluation."""
LASTING = 12
"""So many steps without a compile at least; and as many as there were until then, or so many that
at the pace until then `PACE` more graphs would have come."""
SIZES_LASTING = 40
"""So many steps without a compile show that all sizes of a training are there."""
AGAIN = 2
"""So often each of them ran again at least, as far as it is known which graph a hit ran."""
ONCE = 2
"""So many may have run once alone, where as many steps went by as show that no more sizes come: a
step that is run before a stage begins, weights that are put back behind it."""
ALWAYS = 0.9
"""So often, beside the graph that ran most, one of the first steps ran that is part of each."""
SLIGHT = 0.25
"""What makes no more of a difference than this follows from what makes the rest of it."""
LENGTHS = 4
"""So many numbers of a loop's turns are no two or three kinds of step."""
SEVERAL = 2
"""So many sizes beside the first one that come again are no exceptions."""
OFTEN = 8
"""So often two graphs ran again, of which one computes a piece that the other does not: the program
goes from one to the other and back."""
FORWARD = 0.5
"""The part of a step that its forward pass makes at most."""
FOLLOWING = (LAYOUT, REORDERED_SUM, SHARED_SCALAR, SPECIAL_SCALAR)
"""What follows from other kinds of step, as the order of sums that have more terms in one."""
NEVER_MEANT = frozenset({BUCKET_CARRY, EARLY_EXECUTION, EFFECT_ORDER, SKIPPED_UPDATE})
"""What waits in a bucket, a value that is read within a step, an update that is left out; and the
order of collectives, in which ranks meet or wait for ever."""


def with_early(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    history: History,
    told: frozenset[str],
    stable: int | None,
) -> list[GraphNode]:
    """The graphs, with those meant that came early and may be of a set that is complete.

    `told`: digests of graphs that are known to be part of something that goes on.
    `stable`: the last step that compiled, None if that is the last of all.
    """
    most = max((node.hits for node in nodes), default=0)
    nodes = [
        replace(n, warm_up=True)
        if _runs_always(n, history, most) or _begins_apart(n, history, stable)
        else n
        for n in nodes
    ]
    open_graphs = [k for k, node in enumerate(nodes) if not node.warm_up]
    found = list(nodes)
    came = len(open_graphs) + sum(1 for node in nodes if node.meant is not Meant.NOT)
    lasted = history.steps - 1 - (stable or 0)
    few = MORE if lasted >= max(SIZES_LASTING, MUCH_LONGER * (stable or 0)) else FEW
    outcomes = [comparisons[k].outcome for k in open_graphs]
    of_sizes = any(one is not None and has_size(one) for one in outcomes)
    is_few = len(open_graphs) <= few
    is_settled = is_few and _is_settled(came, history, stable, of_sizes=of_sizes)
    if not is_settled or grows(nodes, history.turns):
        return found
    early = _Early(nodes, graphs, comparisons, design, history.turns, lasted >= SIZES_LASTING)
    told |= _lengths([nodes[k] for k in open_graphs])
    for k in open_graphs:
        other = comparisons[k].number
        if other is not None and early.continues(k) and found[other].meant is not Meant.NOT:
            found[k] = replace(nodes[k], warm_up=True)
            continue
        meant = Meant.NOT if nodes[k].digest in told else early.how(k)
        found[k] = replace(nodes[k], warm_up=meant is not Meant.NOT, meant=meant)
    return found


def _runs_always(node: GraphNode, history: History, most: int) -> bool:
    """Whether a read of the first steps ran nearly as often as any graph: part of each step.

    That costs time in each, and no further compile.

    `most`: how often the graph was hit that was hit most.
    """
    is_first = node.begins_reading and node.step <= history.first_step + 1
    return is_first and most >= LASTING and node.hits >= ALWAYS * most


def _begins_apart(node: GraphNode, history: History, stable: int | None) -> bool:
    """Whether a read begins later, is like nothing that ran before, and is in every step since.

    It is no part of a step that it cuts, whose rest would have compiled with it or behind it: an
    agent that acts by its network once it has seen enough.
    """
    is_apart = node.begins_reading and not node.nearest and node.step == stable
    return is_apart and node.hits >= max(LASTING, ALWAYS * (history.steps - 1 - node.step))


def _is_settled(number: int, history: History, stable: int | None, *, of_sizes: bool) -> bool:
    """Whether no graph came in the longer part of the training, all of which was seen.

    `number`: those that came until then. `of_sizes`: whether any has another size; else half of
    the training is enough.
    """
    if stable is None:
        return False
    until, since = stable - history.first_step, history.steps - 1 - stable
    least = until if of_sizes else until - 1  # with the step that compiled last: half
    is_long = since >= least or number * since >= PACE * until
    return not history.began_late and since >= LASTING and is_long


def grows(nodes: Sequence[GraphNode], turns: Turns) -> bool:
    """Whether graphs grew from turn to turn of a place, though they come again from the first on.

    So do those of windows, each of which goes back through all before it. What grows within one
    step, as with the tokens that a model generates, begins anew in the next.
    """
    known = {node.digest: node for node in nodes}
    lengths: dict[str, int] = {}
    for node in nodes:
        before = known.get(node.nearest)
        is_next = (node.nearest, node.digest) in turns.in_a_row
        is_larger = (
            before is not None
            and before.step < node.step
            and before.instructions < node.instructions
        )
        lengths[node.digest] = 1 + (lengths[node.nearest] if is_next and is_larger else 0)
    return max(lengths.values(), default=0) > MANY


def _lengths(nodes: Sequence[GraphNode]) -> frozenset[str]:
    """Digests of graphs that hold a loop's turns in several numbers: nothing says which come yet.

    A piece at one line comes and goes, and their numbers of instructions stand at even distances.
    """
    by_line: defaultdict[object, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        causes = node.explanation.causes if node.explanation else ()
        if causes and causes[0].kind.is_piece:
            by_line[node.call_site, causes[0].place.line].append(node)
    found = set[str]()
    for here in by_line.values():
        sizes = sorted({node.instructions for node in here})
        gaps = [more - less for less, more in pairwise(sizes)]
        if len(sizes) >= LENGTHS and all(gap % min(gaps) == 0 for gap in gaps):
            found.update(node.digest for node in here)
    return frozenset(found)


@dataclass(frozen=True, eq=False)
class _Early:
    """The graphs of a run in which nothing is new any more."""

    nodes: Sequence[GraphNode]
    graphs: Sequence[CapturedGraph]
    comparisons: Sequence[Comparison]
    design: Design
    turns: Turns
    has_all_sizes: bool
    """Whether so many steps went by that another size would have come."""

    def continues(self, number: int) -> bool:
        """Whether a graph took the place of the one before in the next turn, with its state.

        As the second step of a stage that has a new optimizer.
        """
        other, node = self.comparisons[number].number, self.nodes[number]
        return (
            other is not None
            and self.nodes[other].hits == 0
            and (self.nodes[other].digest, node.digest) in self.turns.in_a_row
            and self.design.brings_state(other, number)
        )

    def how(self, number: int) -> Meant:
        """How a graph is meant by what it differs in; not at all by what nobody means."""
        outcome, other = self.comparisons[number].outcome, self.comparisons[number].number
        if outcome is None or other is None or outcome.same or not self._is_of_set(number, outcome):
            return Meant.NOT
        causes = [one for one in outcome.causes if not self._comes_of_input(one, outcome, number)]
        if not self._skips(number, other, outcome):
            causes = [one for one in causes if one.kind is not SKIPPED_UPDATE]
        if any(one.kind in NEVER_MEANT for one in causes):
            return Meant.NOT
        if number in self._once and self._is_event(number):
            return Meant.EARLY
        causes = [one for one in causes if _scope(one) not in self._flips]
        if has_size(outcome) and not self.has_all_sizes and self._is_odd(number, other):
            return Meant.NOT
        if outcome.proved:
            return Meant.EARLY if _may_be_meant(causes, outcome) else Meant.NOT
        values = (cause for cause in causes if is_value(cause) and cause.kind not in SIZES)
        return Meant.NOT if sum(cause.share for cause in values) >= MOST else Meant.SETTLED

    def _skips(self, number: int, other: int, outcome: Outcome) -> bool:
        """Whether a graph leaves out an update that belongs to it, if one at all is left out.

        One that has what a micro-batch has not leaves out none, nor does the forward pass of a
        batch of another size, as an evaluation has it.
        """
        own, before = self.nodes[number].instructions, self.nodes[other].instructions
        is_evaluation = own <= FORWARD * before and has_size(outcome)
        return own <= before and not is_evaluation

    def _is_event(self, number: int) -> bool:
        """Whether all that ran at the place of a graph ran once each.

        As weights that are cut at a few steps, in which Python decides how many.
        """
        site = self.nodes[number].call_site
        here = [node for node in self.nodes if node.call_site == site]
        return site is not None and all(not (n.hits or n.unnamed_hits) for n in here)

    @cached_property
    def _flips(self) -> set[tuple[str, str]]:
        """The functions that take one of two branches, of which both ran often."""
        found = set[tuple[str, str]]()
        for node, compared in zip(self.nodes, self.comparisons, strict=True):
            number, outcome = compared.number, compared.outcome
            causes = outcome.causes if outcome and outcome.proved else ()
            hits = min(node.hits, self.nodes[number].hits) if number is not None else 0
            if causes and causes[0].kind.is_piece and hits >= OFTEN:
                found |= {scope for one in causes if (scope := _scope(one))}
        return found

    def _comes_of_input(self, cause: Cause, outcome: Outcome, number: int) -> bool:
        """Whether a value is an input of one whole step and computed in the other: none was read.

        Where some batches are mixed and others are not, that is what looks like a part run early.
        Where all graphs end at one line, no other sync can have run a part of these.
        """
        other = self.comparisons[number].number
        nodes = [self.nodes[k] for k in (number, other) if k is not None]
        is_whole = all(node.sync_kind == "step" and not node.begins_reading for node in nodes)
        is_alone = len({(node.call_site, node.sync_kind) for node in self.nodes}) == 1
        is_slight = cause is not outcome.causes[0] and cause.share <= SLIGHT
        return cause.kind is EARLY_EXECUTION and is_whole and (is_alone or is_slight)

    def _is_of_set(self, number: int, outcome: Outcome) -> bool:
        """Whether a graph is no part of a step, and ran again, or what took its place did.

        A hit without a name says too little of a size in a training, but where others come again.
        """
        node = self.nodes[number]
        is_known = self.has_all_sizes or self._evaluates(number) or self._sizes_come_again
        unnamed = node.unnamed_hits if is_known or not has_size(outcome) else 0
        behind = [k for k, c in enumerate(self.comparisons) if c.number == number]
        later = max((self.nodes[k].hits for k in behind if self.continues(k)), default=0)
        is_whole = node.sync_kind == "step" or node.call_site in self._beside
        is_whole = is_whole or (node.call_site is None and self._cut_from_the_first_step)
        ran_again = max(node.hits + unnamed, later) >= AGAIN
        return is_whole and (ran_again or number in self._once)

    @cached_property
    def _once(self) -> frozenset[int]:
        """The graphs that ran once alone, if they are few and nothing came for long since."""
        found = {k for k, n in enumerate(self.nodes) if not (n.warm_up or n.hits or n.unnamed_hits)}
        return frozenset(found if self.has_all_sizes and len(found) <= ONCE else ())

    @cached_property
    def _sizes_come_again(self) -> bool:
        """Whether several sizes are known to have run again: the steps choose among them."""
        known = (node.explanation for node in self.nodes if node.hits >= AGAIN)
        return sum(1 for outcome in known if outcome and has_size(outcome)) >= SEVERAL

    @cached_property
    def _cut_from_the_first_step(self) -> bool:
        """Whether no line of the program cuts the steps, from the first one on.

        As an operation that torch_xla computes on the host, in the backward pass: each kind of step
        is cut there.
        """
        return any(node.call_site is None and node.warm_up for node in self.nodes)

    @cached_property
    def _beside(self) -> set[SourceLine | None]:
        """Where parts of the program run that cut no step of the training."""
        return {node.call_site for node in self.nodes if node.another_part and node.warm_up}

    def _evaluates(self, number: int) -> bool:
        sort = self.design.sort(number)
        is_sort = sort is not None and sort.part is Part.EVALUATION
        return is_sort or self.nodes[number].call_site in self._beside

    def _is_odd(self, number: int, other: int) -> bool:
        """Whether a size of the training is an exception, or that of a batch between others.

        An evaluation takes all there is.
        """
        if self._evaluates(number):
            return False
        turns = self.design.turns_of_sort(number).turns
        since = turns[turns.index(number) :] if number in turns else ()
        apart = sizes_apart([self.graphs[other], self.graphs[number]])[1]
        return other in since and (is_of_batch(apart) or has_rule(since))


def _scope(cause: Cause) -> tuple[str, str] | None:
    return cause.place.line and cause.place.line.scope


def _may_be_meant(causes: Sequence[Cause], outcome: Outcome) -> bool:
    """Whether each of these causes may be meant; beside a size also the little that comes of it."""
    others = [one for one in causes if not _may_come_alone(one)]
    return not others or (has_size(outcome) and sum(one.share for one in others) <= BESIDE)


def _may_come_alone(cause: Cause) -> bool:
    return comes_along(cause) or cause.kind in (*SIZES, *FOLLOWING)


def has_size(outcome: Outcome) -> bool:
    """Whether an input has another size; what comes in another form has that of its source."""
    return any(one.kind is INPUT_SHAPE and one.short != FORM_SHORT for one in outcome.causes)
