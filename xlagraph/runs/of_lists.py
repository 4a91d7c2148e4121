"""Graphs that belong to a list of tensors that grows, though they differ in something else."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Words
from xlagraph.message import Code, count, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.random_numbers import RANDOM_NUMBERS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.beside import OFTEN
from xlagraph.runs.causes.growth import main_line
from xlagraph.runs.causes.lists import AsList
from xlagraph.runs.causes.stated import as_one
from xlagraph.runs.kinds import GROWING_GRAPH, UNEXPLAINED
from xlagraph.runs.model import ranked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import CauseGroup, GraphNode
    from xlagraph.runs.reasons import Reason

LEFT = (INPUT_SHAPE, LIVE_TENSOR, UNEXPLAINED)
"""What graphs differ in that keep, compute or take in what was read of a list."""
LBFGS = "/torch/optim/lbfgs.py"
METRICS = "/torchmetrics/"
KINDS = 2
"""In so many ways the graphs of one loop differ."""
HISTORY = Words(
    say(
        "torch.optim.LBFGS loops in Python over the pairs that it keeps, one more with each "
        "iteration until there are history_size, and reads a value in each turn: every length is "
        "another set of graphs. Give it a history_size that is full after a few iterations; or "
        "run it on the CPU, where so few parameters are as fast."
    ),
    say("The history that LBFGS keeps grows with every step"),
    say("Give ", Code("LBFGS"), " a short history (", Code("history_size"), ")."),
)
PIECES = (EXTRA_SUBGRAPH, REPLACED_SUBGRAPH, RANDOM_NUMBERS)


def grown_lists(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Graphs that grow by a list of tensors, at a line where other parts of a step grow by it."""
    sizes = {one.line: one for one in known.values() if one.kind is PYTHON_SIZE and not one.retell}
    return {
        node.digest: sizes[reason.line]
        for node in nodes
        if not node.warm_up
        and (reason := known[node.digest]).kind is GROWING_GRAPH
        and reason.line in sizes
        and (first := _first(node)) is not None
        and first.kind is PYTHON_SIZE
    }


def joins_of_lists(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Graphs that take in and join one tensor more, where a list grows over the run.

    That is at the list's line; or in torchmetrics, where one of its metrics keeps the list.
    """
    lists = Counter(one for one in known.values() if one.kind is GROWING_GRAPH)
    often = [one for one, times in lists.items() if times >= OFTEN]
    at_lines = {one.line[:2]: one for one in often if one.line}
    metrics = [one for one in often if isinstance(one.retell, AsList) and one.retell.longer.metric]
    found: dict[str, Reason] = {}
    for node in nodes:
        reason = known[node.digest]
        if node.warm_up or reason.retell or reason.kind is not ADDED_INPUT:
            continue
        of_line = at_lines.get(reason.line[:2]) if reason.line else None
        of_metric = metrics[0] if len(metrics) == 1 and _runs_in(_first(node), METRICS) else None
        if told := of_line or of_metric:
            found[node.digest] = told
    return found


def read_of_lists(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Graphs of reads at a place of which most join a longer list, at that line: they do as well.

    Where a function reads several values of a list, graphs of one read are compared with another's;
    and in a step in which it is longer so is what the function joins of a part of it.
    """
    there: defaultdict[tuple[SourceLine | None, Reason], int] = defaultdict(int)
    for node in nodes:
        reason = known[node.digest]
        if node.sync_kind == "value" and reason.kind in (PYTHON_SIZE, GROWING_GRAPH):
            there[node.call_site, reason] += 1
    lists: defaultdict[SourceLine | None, list[Reason]] = defaultdict(list)
    for (site, reason), times in there.items():
        if times >= OFTEN:
            lists[site].append(reason)
    steps = {(known[node.digest], node.rank, node.step) for node in nodes}
    found: dict[str, Reason] = {}
    for node in nodes:
        first = _first(node)
        is_piece = node.sync_kind == "value" and known[node.digest].kind in PIECES
        if node.warm_up or first is None or not is_piece:
            continue
        line, here = main_line(first), lists[node.call_site]
        of_line = [one for one in here if one.line == line]
        of_step = [
            one
            for one in here
            if (one, node.rank, node.step) in steps and _in_one_function(line, one.line)
        ]
        if told := of_line or of_step:
            found[node.digest] = told[-1]
    return found


def _in_one_function(one: SourceLine | None, other: SourceLine | None) -> bool:
    return one is not None and other is not None and one.scope == other.scope


def left_of_lists(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs that keep or compute what was read of a list that grows.

    A metric has more to compute than each of its values needs: the rest waits for the next step.
    Nor is it another cause that the step is cut of which such a read is a part, or that what is
    joined there comes in, from one read to the next, in another size.
    """
    lists = Counter(one for one in known.values() if one.kind is GROWING_GRAPH)
    read = {one.line[:2]: one for one, number in lists.items() if one.line and number >= OFTEN}
    found: dict[str, Reason] = {}
    for node in nodes:
        reason = known[node.digest]
        of_list = read.get(reason.line[:2]) if reason.line else None
        if node.warm_up or of_list is None or reason.how:
            continue
        if reason.kind is EARLY_EXECUTION:
            is_left = (found.get(node.nearest) or known.get(node.nearest)) == of_list
        else:
            is_left = reason.kind in LEFT and not reason.retell
        if is_left:
            found[node.digest] = of_list
    return found


def _first(node: GraphNode) -> Cause | None:
    """What a graph differs in first."""
    return next(iter(node.explanation.causes), None) if node.explanation else None


def with_history(groups: Sequence[CauseGroup]) -> tuple[CauseGroup, ...]:
    """The groups; as one those of L-BFGS, whose steps loop over the history that it keeps.

    PyTorch's goes through a list of pairs and reads values between them, so that each length cuts
    its steps into other parts (``torch/optim/lbfgs.py``).
    """
    problems = [(g, g.place.line[:2]) for g in groups if not g.expected and g.place.line]
    lines = {line for group, line in problems if _runs_in(group.cause, LBFGS)}
    own = [group for group, line in problems if line in lines]
    first = max(own, key=lambda group: group.compiles, default=None)
    if len(lines) != 1 or len(own) < KINDS or first is None or first.cause is None:
        return tuple(groups)
    one = as_one([first, *(group for group in own if group is not first)])
    title = say(HISTORY.short, f": {count(one.compiles, 'graph')}")
    cause = replace(
        first.cause,
        title=title,
        fix=say(HISTORY.fix),
        short=HISTORY.short,
        short_fix=HISTORY.short_fix,
        seen=None,
    )
    told = replace(one, title=title, cause=cause, further=(), frequent=(), second=(), alike=())
    return ranked((told, *(group for group in groups if group not in own)))


def _runs_in(cause: Cause | None, path: str) -> bool:
    """Whether what a cause cites is computed in a file of this path."""
    cited = (line for one in cause.evidence for line in one.sources) if cause else ()
    frames = (frame for line in cited for frame in (line, line.called) if frame)
    return any(path in frame.file for frame in frames)
