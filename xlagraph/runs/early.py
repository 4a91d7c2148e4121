"""Few graphs that came early in a run and only ran again since, in whatever order.

Sizes that take turns by no rule, a sampler now and then, stages that overlap: what the steps of one
place show may say nothing, while the whole run says that no more is coming. Where nothing compiled
in its longer part, and few graphs are left that nobody has accounted for, they are told and are no
alarm: each cost its compile once, and the training goes on without.

An alarm stays what a person hardly means, however early it came: a number, an index or a type in
the graph, a value read within a step, what waits in a bucket; and in a training the size of a batch
between others, as that of an odd last one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.rules.early_execution import EARLY_EXECUTION
from xlagraph.rules.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.few_sizes import has_rule
from xlagraph.runs.growth import MANY
from xlagraph.runs.input_sizes import sizes_apart
from xlagraph.runs.meant import Meant, comes_along, is_value
from xlagraph.runs.sorts import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.design import Design
    from xlagraph.runs.history import History
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.turns import Turns

FEW = 6
"""More graphs than these that nobody has accounted for are no set that somebody meant."""
LASTING = 12
"""So many steps without a compile at least; and as many as there were until then."""
AGAIN = 2
"""So often each of them ran again at least, as far as it is known which graph a hit ran."""
MOST = 0.5
"""What makes this part of a difference is what it is about."""


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
    open_graphs = [k for k, node in enumerate(nodes) if not node.warm_up]
    found = list(nodes)
    if len(open_graphs) > FEW or stable is None or not _is_settled(history, stable):
        return found
    if _grows(nodes, history.turns):
        return found
    for k in open_graphs:
        node = nodes[k]
        if node.sync_kind == "step" and node.digest not in told and _ran_again(node):
            meant = _how(k, graphs, comparisons, design)
            found[k] = replace(node, warm_up=meant is not Meant.NOT, meant=meant)
    return found


def _is_settled(history: History, stable: int) -> bool:
    """Whether nothing compiled in the longer part of the training, all of which was seen."""
    until, since = stable - history.first_step, history.steps - 1 - stable
    return not history.began_late and since >= max(LASTING, until)


def _grows(nodes: Sequence[GraphNode], turns: Turns) -> bool:
    """Whether graphs grew from turn to turn of a place, though they come again from the first on.

    So do those of windows, each of which goes back through all before it.
    """
    known = {node.digest: node for node in nodes}
    lengths: dict[str, int] = {}
    for node in nodes:
        before = known.get(node.nearest)
        is_next = (node.nearest, node.digest) in turns.in_a_row
        is_larger = before is not None and before.instructions < node.instructions
        lengths[node.digest] = 1 + (lengths[node.nearest] if is_next and is_larger else 0)
    return max(lengths.values(), default=0) > MANY


def _ran_again(node: GraphNode) -> bool:
    """Whether it is known to have; a hit without a name says too little of sizes."""
    causes = node.explanation.causes if node.explanation else ()
    has_size = any(cause.kind is INPUT_SHAPE for cause in causes)
    return node.hits + (0 if has_size else node.unnamed_hits) >= AGAIN


def _how(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
) -> Meant:
    """How a graph is meant by what it differs in; not at all by what nobody means."""
    outcome, other = comparisons[number].outcome, comparisons[number].number
    if outcome is None or other is None or outcome.same:
        return Meant.NOT
    causes = outcome.causes
    has_size = any(cause.kind is INPUT_SHAPE for cause in causes)
    if has_size and _is_odd(number, other, graphs, design):
        return Meant.NOT
    if outcome.proved:
        rest = [cause for cause in causes if not (comes_along(cause) or _is_size(cause))]
        return Meant.NOT if rest else Meant.EARLY
    reads = any(cause.kind is EARLY_EXECUTION for cause in causes)
    values = (cause for cause in causes if is_value(cause) and not _is_size(cause))
    is_known = reads or sum(cause.share for cause in values) >= MOST
    return Meant.NOT if is_known else Meant.SETTLED


def _is_size(cause: Cause) -> bool:
    return cause.kind in (INPUT_SHAPE, PYTHON_SIZE)


def _is_odd(number: int, other: int, graphs: Sequence[CapturedGraph], design: Design) -> bool:
    """Whether a size of the training is an exception, or that of a batch between others.

    An evaluation takes all there is.
    """
    sort = design.sort(number)
    if sort and sort.part is Part.EVALUATION:
        return False
    turns = design.turns_of_sort(number).turns
    since = turns[turns.index(number) :] if number in turns else ()
    apart = sizes_apart([graphs[other], graphs[number]])[1]
    is_batch = not any(size.dimension for size in apart)
    return other in since and (is_batch or has_rule(since))
