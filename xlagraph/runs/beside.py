"""Graphs whose own first cause comes along with what other graphs have too.

A number that changes may equal another one by chance, or be 1; its first step may begin a sum
anew, or keep a value that nobody has read yet. Such a graph differs in both, and the larger
part of the difference says little: what other graphs differ in is what makes them compile.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.causes.growth import BAKED, AsLoop, main_line
from xlagraph.runs.causes.pending import AsPending
from xlagraph.runs.kinds import UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.reasons import Reason

COMES_ALONG = frozenset({SHARED_SCALAR, SPECIAL_SCALAR, INITIAL_STATE, LIVE_TENSOR})
MAX_BODY = 12
"""Lines of a loop's body behind what it reads."""
OFTEN = 3
"""So many graphs have a reason that others come of; of those that come along there are fewer."""


def family(kind: Kind) -> Kind:
    """The kind that stands for all that the numbers of one line set."""
    return PYTHON_SIZE if kind in BAKED else kind


def of_most(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs that differ at several lines, in what Python numbers set there.

    Lines that change in nearly every step change in nearly every graph. Which of them makes the
    larger difference is chance, so a graph is filed with the line at which most others differ too.
    """
    baked = {
        node: dict.fromkeys(
            main_line(cause) for cause in node.explanation.causes if cause.kind in BAKED
        )
        for node in nodes
        if not node.warm_up
        and node.explanation
        and known[node.digest].kind in BAKED
        and not known[node.digest].retell
    }
    number = Counter(line for lines in baked.values() for line in lines)
    reasons = Counter(known[node.digest] for node in baked)
    of_line: dict[SourceLine | None, Reason] = {}
    for reason, _ in reasons.most_common():
        of_line.setdefault(reason.line, reason)
    found = {}
    for node, lines in baked.items():
        told = [line for line in lines if line in of_line and number[line] >= OFTEN]
        if told:
            found[node.digest] = of_line[max(told, key=number.__getitem__)]
    return found


def of_same_words(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs with what one function does at several lines, in the same words.

    Two calls of ``unique`` in a row each give their own number of values: it is one mistake, with
    one mend. They are filed with the line that most of them have.
    """
    found: defaultdict[tuple[object, ...], dict[str, Reason]] = defaultdict(dict)
    for node in nodes:
        reason = known[node.digest]
        causes = node.explanation.causes if node.explanation else ()
        own = next(
            (c for c in causes if (c.kind, main_line(c)) == (reason.kind, reason.line)), None
        )
        if own and own.short and reason.line and not (node.warm_up or reason.retell):
            found[told_as(own)][node.digest] = reason
    return {
        digest: Counter(alike.values()).most_common(1)[0][0]
        for alike in found.values()
        for digest in alike
    }


def told_as(cause: Cause) -> tuple[object, ...]:
    """What two causes share that are one to whom they are told: kind, function and words."""
    line = main_line(cause)
    return cause.kind, line.scope if line else None, str(cause.short)


def of_other_sizes(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs with another size of an input that often has another.

    Where several inputs change their sizes one may have the same twice; the line is then another.
    """
    sized = {node: known[node.digest] for node in nodes if _is_sized(node, known)}
    number = Counter(sized.values())
    often = {_pattern(node): reason for node, reason in sized.items() if number[reason] >= OFTEN}
    return {
        node.digest: often[pattern]
        for node, reason in sized.items()
        if number[reason] < OFTEN and (pattern := _pattern(node)) and pattern in often
    }


def _is_sized(node: GraphNode, known: Mapping[str, Reason]) -> bool:
    reason = known[node.digest]
    return not node.warm_up and reason.kind is INPUT_SHAPE and not reason.retell


def _pattern(node: GraphNode) -> str:
    """An input's shape without the sizes that changed; empty where none is known."""
    outcome = node.explanation
    a, b = (outcome.first_a, outcome.first_b) if outcome else (None, None)
    if not a or not b or a.opcode != "parameter":
        return ""
    sizes = [one.shape.partition("[") for one in (a, b)]
    pairs = zip(*(re.findall(r"\d+", text) for _, _, text in sizes), strict=False)
    return f"{sizes[0][0]}[{','.join(x if x == y else '*' for x, y in pairs)}]"


def of_other_dtypes(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs in which inputs of two dtypes change places, where others change.

    Of columns that come in one dtype or another, two steps may have as many of each: then it looks
    as if their values were taken in another order; or no cause fits, as much is computed, and all
    that differs stands in the function where dtypes change.
    """
    found = _open(nodes, known)
    often = {
        (one.line.file, one.line.function): one
        for one, times in Counter(found.values()).items()
        if times >= OFTEN and one.kind is DTYPE and one.line
    }
    asked = {
        digest: (reason.line.file, reason.line.function)
        for digest, reason in found.items()
        if reason.kind is REORDERED_OPERANDS and not reason.retell and reason.line
    }
    sizes = {node.digest: node.instructions for node in nodes}
    for node in nodes:
        is_open = node.digest in found and found[node.digest].kind is UNEXPLAINED
        if is_open and node.instructions == sizes.get(node.nearest):
            places = node.explanation.left_at if node.explanation else ()
            at = {(one.line.file, one.line.function) if one.line else None for one in places}
            if len(at) == 1 and (place := at.pop()):
                asked[node.digest] = place
    return {digest: often[place] for digest, place in asked.items() if place in often}


def of_read_numbers(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs with parts that ran early, or pieces, where numbers change.

    A number that is read there and used as an index, or as a place in what is sorted, cuts the step
    each time: who keeps it on the device mends both. Where several numbers of a line change at
    once, as the sizes of a split do, what is computed of them may look like another piece.
    """
    found = _open(nodes, known)
    times = Counter(found.values())
    often = {
        one.line[:2]: one
        for one, number in times.items()
        if number >= OFTEN and one.kind in BAKED and one.line and not one.retell
    }
    return {
        digest: often[reason.line[:2]]
        for digest, reason in found.items()
        if reason.line
        and reason.line[:2] in often
        and (reason.kind is EARLY_EXECUTION or _is_seldom_piece(reason, times, often))
    }


def _is_seldom_piece(
    reason: Reason, times: Counter[Reason], often: Mapping[tuple[str, int], Reason]
) -> bool:
    """Whether fewer graphs have this piece than have a number of its line that changes."""
    is_piece = reason.kind is REPLACED_SUBGRAPH and not reason.retell and reason.line
    return bool(is_piece and reason.line and times[reason] < times[often[reason.line[:2]]])


def _open(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of the graphs that are no warm-up."""
    return {node.digest: known[node.digest] for node in nodes if not node.warm_up}


def of_others(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of graphs that come of one which others have."""
    open_nodes = [node for node in nodes if not node.warm_up]
    number = Counter(known[node.digest] for node in open_nodes)
    often = {
        (reason.kind, reason.line): reason
        for reason, times in number.items()
        if times >= OFTEN and reason.kind not in COMES_ALONG
    }
    found = {}
    for node in open_nodes:
        reason = known[node.digest]
        if number[reason] >= OFTEN or reason.kind not in COMES_ALONG or reason.retell:
            continue
        causes = node.explanation.causes if node.explanation else ()
        keys = ((cause.kind, main_line(cause)) for cause in causes[1:])
        if other := next((often[key] for key in keys if key in often), None):
            found[node.digest] = other
    return found


def of_loops(nodes: Sequence[GraphNode], known: Mapping[str, Reason]) -> dict[str, Reason]:
    """Digest to reason of unproved graphs of steps in which a loop has a length that is new.

    What such a step also keeps, as for a log, is told of it where the loop's turns stay in pieces.
    That other graphs at its place come of the loop says that its turns stand in it.
    """
    loops = {d: one for d, one in known.items() if isinstance(one.retell, AsLoop)}
    looped = [node for node in nodes if node.digest in loops]
    steps = {(loops[node.digest], node.rank, node.step) for node in looped}
    sites = Counter((loops[node.digest], node.rank, node.call_site) for node in looped)
    found = {}
    for node in nodes:
        reason, is_proved = known[node.digest], node.explanation and node.explanation.proved
        if node.warm_up or is_proved or reason.retell or reason.how:
            continue
        here = (
            one
            for one, rank, site in sites
            if sites[one, rank, site] >= OFTEN
            and (rank, site) == (node.rank, node.call_site)
            and (one, rank, node.step) in steps
        )
        if reason.kind in (LIVE_TENSOR, UNEXPLAINED) and (one := next(here, None)):
            found[node.digest] = one
    return found


def of_reading_loops(
    nodes: Sequence[GraphNode], known: Mapping[str, Reason], program: ProgramText
) -> dict[str, Reason]:
    """Digest to reason of graphs that differ in what a loop calls that reads a value in its turns.

    How often it ran decides what else is pending there, and which of its numbers are equal. What
    runs the steps calls everything.
    """
    sites = {node.call_site for node in nodes if node.sync_kind == "value" and node.call_site}
    ends = {node.call_site for node in nodes if node.sync_kind == "step" and node.call_site}
    functions = {(one.file, one.function) for one in sites if program.loop_in_step(one)}
    functions -= {(one.file, one.function) for one in ends}
    called = [
        node
        for node in nodes
        if not node.warm_up
        and not known[node.digest].how
        and any((one.file, one.function) in functions for one in _stack(node))
    ]
    loops = Counter(
        reason for node in called if isinstance((reason := known[node.digest]).retell, AsLoop)
    )
    if not functions or loops.total() < OFTEN:
        return {}
    (reason, _), *_ = loops.most_common(1)
    return {
        node.digest: reason
        for node in called
        if known[node.digest] in loops or not known[node.digest].retell
    }


def of_pending_loops(
    nodes: Sequence[GraphNode], known: Mapping[str, Reason], program: ProgramText
) -> dict[str, Reason]:
    """Digest to reason of graphs with pieces behind a loop from read to read of which more waits.

    Right behind it in its function, or where that is called: how often the loop ran decides what
    is computed there, too.
    """
    waiting = Counter(
        one for one in known.values() if isinstance(one.retell, AsPending) and one.line
    )
    often = [(one, one.line) for one, times in waiting.most_common() if times >= OFTEN and one.line]
    found: dict[str, Reason] = {}
    for node in nodes:
        reason = known[node.digest]
        is_piece = reason.kind.is_piece and not (reason.retell or reason.how or node.warm_up)
        if is_piece and reason.line:
            told = (one for one, loop in often if _is_behind(reason.line, loop, program))
            found[node.digest] = next(told, reason)
    return found


def _is_behind(line: SourceLine, loop: SourceLine, program: ProgramText) -> bool:
    """Whether a line follows one in a loop in its function, or calls that function."""
    if is_right_behind(line, loop) and line.line != loop.line:
        return True
    text = program.lines.get(line.file, {}).get(line.line, "")
    name = loop.function.rpartition(".")[2]
    return bool(re.search(rf"(?<!def )\b{re.escape(name)}\(", text))


def is_right_behind(line: SourceLine, first: SourceLine) -> bool:
    """Whether a line is in the function of another one, there or a few lines behind it."""
    return line.scope == first.scope and 0 <= line.line - first.line <= MAX_BODY


def _stack(node: GraphNode) -> Sequence[SourceLine]:
    causes = node.explanation.causes if node.explanation else ()
    return causes[0].place.stack if causes else ()


def of_new_sizes(
    nodes: Sequence[GraphNode], known: Mapping[str, Reason], sizes: Collection[Kind]
) -> dict[str, Reason]:
    """Digest to reason of graphs that compile only with another one that has a new size.

    Code that reads values cuts a step into parts, and all of them have that size, also where what
    is pending grows from read to read: in as many parts each time. And where a new
    size begins something anew, as sums of what is seen, the step behind it goes on with that: it
    is one graph, in each of the sizes.
    """
    members: defaultdict[Reason, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        if not node.warm_up:
            members[known[node.digest]].append(node)
    steps = {reason: {_step(node) for node in own} for reason, own in members.items()}
    anew = {one: its for one, its in steps.items() if one.kind in sizes and not one.retell}
    found: dict[Reason, Reason] = {}
    for reason, own in members.items():
        is_other = reason.retell and not isinstance(reason.retell, AsPending)
        if len(steps[reason]) < OFTEN or is_other or reason.how:
            continue
        if reason.kind in sizes:
            size = next(
                (r for r, its in anew.items() if _makes(reason, r) and steps[reason] <= its), None
            )
            if size:
                found[reason] = size
            continue
        own_steps = steps[reason] - ({min(steps[reason])} if reason.retell else set())
        size = next((one for one, its in anew.items() if own_steps <= its), None)
        size = size or next((one for one, its in anew.items() if _goes_on(own, its)), None)
        if size:
            found[reason] = size
    return {
        node.digest: found[known[node.digest]]
        for node in nodes
        if not node.warm_up and known[node.digest] in found
    }


def _makes(reason: Reason, other: Reason) -> bool:
    """Whether a tensor that the step makes may have its size from an input, of the other reason."""
    return reason.kind is PYTHON_SIZE and other.kind is INPUT_SHAPE


def _goes_on(own: Sequence[GraphNode], sizes: Collection[tuple[int, int]]) -> bool:
    """Whether it is one graph in each of the sizes, a step behind that of another one.

    The first of all is behind the steps that no other came before.
    """
    is_one = len({node.instructions for node in own}) == 1
    behind = sorted({(node.rank, node.step - 1) for node in own})
    return is_one and {*behind[1:]} <= {*sizes} and behind[0] < min(sizes)


def _step(node: GraphNode) -> tuple[int, int]:
    return node.rank, node.step
