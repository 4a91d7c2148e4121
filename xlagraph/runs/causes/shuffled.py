"""Graphs that differ in the order in which a loop goes through a list that Python shuffles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.message import Code, count, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.order.rewired_operations import CONNECTED
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT
from xlagraph.runs.causes.drawn import MANY, own_frames
from xlagraph.runs.causes.draws import draws_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.runs.model import GraphNode

ORDERED = frozenset({OTHER_OPERAND, REORDERED_OPERANDS, REORDERED_SUM, REPLACED_SUBGRAPH})
"""What a graph looks like in which the same is done in another order."""
PICKED = ORDERED | {ACCUMULATION_COUNT, EXTRA_SUBGRAPH}
"""What it looks like where only some of a list are taken, in the order in which they are drawn."""
_ADDED = frozenset({OUTPUT_ORDER, REORDERED_OPERANDS, REORDERED_SUM})
LEFT = frozenset({ATTRIBUTE, LIVE_TENSOR, OUTPUT_ORDER, PYTHON_INDEX, PYTHON_SIZE})
"""What it may look like where others of a list are taken, of other shapes, and is not proved."""
_PICKS = re.compile(r"\bchoices\(|\bsample\((?!.*,\s*(?:k\s*=\s*)?len\([\w.]+\)\s*\))")
"""A sample of as many as there are is an order of all."""
_SORTS = re.compile(r"^(?!.*\bsample\().*\bsort(?:ed)?\(")
"""A sample of what is sorted is drawn."""
FIX = say(
    "Python puts what the loop goes through into another order, and every order is a graph of its "
    "own. Take one order in every step, sorted or as it comes; or stack the tensors, send the "
    "order as data, and take them by it: ",
    Code("torch.stack(parts).index_select(0, order)"),
    ".",
)


SORTED_FIX = say(
    "Python sorts what the loop goes through by a key that changes, and every order is a graph of "
    "its own. Go through it in one order in every step, as it stands in the list; or stack the "
    "tensors, send the order as data, and take them by it: ",
    Code("torch.stack(parts).index_select(0, order)"),
    ".",
)
PICKED_FIX = say(
    "Python draws which of a list are computed, and every choice, in every order, is a graph of "
    "its own. Compute all of them in every step, in one order, and multiply each by 0 or 1, drawn "
    "on the host and sent as one tensor."
)


GIVEN_FIX = say(
    "What the loop goes through comes in another order in some steps, and every order is a graph "
    "of its own. Take one order in every step: sort it, or gather the parts first and compute "
    "them in an order that stays."
)
_GIVES = re.compile(r"(?!(?:enumerate|len|list|range|reversed|tuple|zip)\()[\w.]+\(.*\)")
_KEEPS = re.compile(
    r"\.(?:children|chunk|items|keys|modules|named_\w+|parameters|split|unbind|values)\("
)
"""What gives the same order each time."""


@dataclass(frozen=True, slots=True)
class AsShuffled:
    """Says the cause of a single graph as the order, or the choice, that Python makes."""

    shuffle: SourceLine
    is_sorted: bool = False
    is_picked: bool = False
    given: str = ""
    """The call that gives what the loop goes through, where it is not seen who shuffles that."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """What graphs look like that come of it."""
        return PICKED if self.is_picked else ORDERED

    def may_look_like(self, cause: Cause) -> bool:
        """Whether a cause at its place may come of it: the outputs' order does."""
        return cause.kind is OUTPUT_ORDER or (
            self.is_picked and cause.kind in LEFT and not cause.proved
        )

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause beside it comes of the order as well: sums, and what is connected.

        So is what a turn of the loop leaves to Python, the last one's until the next step.
        """
        if cause.kind is LIVE_TENSOR:
            return any(self._leads_to(frame) for frame in own_frames(cause))
        return cause.kind in _ADDED or str(cause.title).startswith(CONNECTED)

    def _leads_to(self, frame: SourceLine) -> bool:
        here = (frame.file, frame.function) == (self.shuffle.file, self.shuffle.function)
        return here and frame.line > self.shuffle.line

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with what is shuffled."""
        graphs = count(len(members), "graph")
        who, what, fix, short, short_fix = self._words()
        return replace(
            cause,
            title=say(who, at((self.shuffle,)), f" {what}: {graphs}"),
            fix=fix,
            short=say(short),
            short_fix=say(short_fix),
            place=replace(
                cause.place, line=self.shuffle, stack=(self.shuffle,), source=(), is_near=False
            ),
        )

    def _words(self) -> tuple[Message, str, Message, str, str]:
        """Who makes the order, what that does, and what else is said of it."""
        one_order = "Keep one order, or send it as a tensor and index."
        if self.is_picked:
            return (
                say("Python draws"),
                "which of a list are computed",
                PICKED_FIX,
                "Python draws which parts are computed",
                "Compute all in one order; multiply each by 0 or 1.",
            )
        if self.is_sorted:
            what = "what is computed in turn, by a key that changes"
            return (
                say("Python sorts"),
                what,
                SORTED_FIX,
                "Python sorts the order of operations",
                one_order,
            )
        if self.given:
            short = "a loop goes through its parts in another order"
            short_fix = "Sort what the loop goes through; keep one order."
            who = say(Code(self.given))
            return who, "gives the parts in another order", GIVEN_FIX, short, short_fix
        what = "what is computed in turn"
        return (
            say("Python shuffles"),
            what,
            FIX,
            "Python shuffles the order of operations",
            one_order,
        )


def shuffled(
    causes: Iterable[tuple[GraphNode, Cause]], program: ProgramText
) -> dict[str, AsShuffled]:
    """Digest to what is said of graphs that differ in an order that Python has changed.

    What others differ in at such a place goes back to it as well, if nothing else is proved; and
    so does what takes other values where the function with the loop is called, if most of it
    stands in the loop.

    Args:
        causes: graphs with their main cause.
        program: what is known of its text.
    """
    found: defaultdict[AsShuffled, list[str]] = defaultdict(list)
    left: defaultdict[AsShuffled, list[str]] = defaultdict(list)
    rewired: list[str] = []
    for node, cause in causes:
        one = _shuffled(cause, program) or _given(cause, program)
        if one and cause.kind in one.kinds:
            found[one].append(node.digest)
        elif one and one.may_look_like(cause):
            left[one].append(node.digest)
        elif within := _around(cause, program):
            left[within].append(node.digest)
        elif str(cause.title).startswith(CONNECTED):
            rewired.append(node.digest)
    told = {
        digest: one
        for one, digests in found.items()
        if len(digests) >= MANY
        for digest in (*digests, *left[one])
    }
    given = {one for one in told.values() if one.given}
    if len(given) == 1:  # gradients of its parts are added up in its order
        told |= dict.fromkeys((d for d in rewired if d not in told), *given)
    return told


def in_drawn_order(nodes: Iterable[GraphNode], program: ProgramText) -> frozenset[str]:
    """Digests of graphs beyond warm-up that differ in an order that Python draws.

    Nobody means every order to have a graph of its own, even where few orders are possible.
    """
    causes = [
        (node, node.explanation.causes[0])
        for node in nodes
        if not node.warm_up and node.explanation and node.explanation.causes
    ]
    found = shuffled(causes, program).items()
    return frozenset(digest for digest, one in found if not one.is_sorted)


def _around(cause: Cause, program: ProgramText) -> AsShuffled | None:
    """The loop in an order made anew in which most lines stand that an exchange names."""
    named = [one.sources[0] for one in cause.evidence if one.sources]
    loops = Counter(_in_order([line], program) for line in named)
    one, times = loops.most_common(1)[0] if loops else (None, 0)
    return one if one and cause.kind in one.kinds and 2 * times > len(named) else None


def _given(cause: Cause, program: ProgramText) -> AsShuffled | None:
    """The innermost loop of a step around a sum in another order, if a call gives its parts."""
    if cause.kind not in _ADDED - {OUTPUT_ORDER} or not cause.proved:
        return None
    for frame in own_frames(cause):
        loop = program.loop_in_step(frame)
        lines = program.lines.get(frame.file, {})
        if loop is None or frame.line not in lines:
            continue
        within = draws_around(lines, frame.line).goes_through(frame.line)
        if within and _GIVES.fullmatch(within[1]) and not _KEEPS.search(within[1]):
            return AsShuffled(frame._replace(line=within[0]), given=within[1])
    return None


def _shuffled(cause: Cause, program: ProgramText) -> AsShuffled | None:
    """The innermost loop of a step around a cause, if its order is made anew and tells of it."""
    return _in_order(own_frames(cause), program) if cause.kind in PICKED | LEFT else None


def _in_order(frames: Sequence[SourceLine], program: ProgramText) -> AsShuffled | None:
    """The same for a line, and what called it."""
    for frame in frames:
        if frame.function.startswith("<genexpr"):
            continue
        lines = program.lines.get(frame.file, {})
        around = enclosing(program.lines, [frame])
        ends_steps = around is not None and around.loop[:2] in program.step_loops
        if frame.line not in lines or ends_steps:
            return None
        draws = draws_around(lines, frame.line)
        line = draws.shuffled(frame.line)
        if line is not None:
            is_picked, is_sorted = (bool(one.search(draws.lines[line])) for one in (_PICKS, _SORTS))
            head = frame._replace(line=line, called=None, backward_of="")
            return AsShuffled(head, is_sorted, is_picked)
    return None


def shuffled_beside(
    causes: Sequence[tuple[GraphNode, Cause]], members: Sequence[GraphNode], program: ProgramText
) -> tuple[Cause, ...]:
    """The cause that an order which Python changes is, where it is not the first of these graphs.

    Args:
        causes: graphs with what else they differ in.
        members: the graphs.
        program: what is known of its text.
    """
    of_order = [(node, cause) for node, cause in causes if cause.kind in ORDERED]
    told = shuffled(of_order, program)
    if not told:
        return ()
    (one, _), *_ = Counter(told.values()).most_common(1)
    cause = next(cause for node, cause in of_order if told.get(node.digest) == one)
    return (one(cause, [node for node in members if told.get(node.digest) == one]),)
