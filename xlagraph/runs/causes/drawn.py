"""Graphs that differ in what Python draws: a coin in each turn, or what a store gives out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from xlagraph.cause.model import Cause
from xlagraph.cause.sources import at
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.message import EMPTY, Code, count, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.runs.causes.draws import draws_around
from xlagraph.tensors import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.verdict import Place
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.runs.causes.draws import Draw, Draws
    from xlagraph.runs.model import GraphNode

MANY = 3
"""So many graphs at least that differ in what is drawn at one place."""
VALUES = frozenset({EXTRA_SUBGRAPH, REPLACED_SUBGRAPH, OTHER_OPERAND, ADDED_INPUT})
"""What a graph looks like in which a coin fell otherwise."""
PIECES_OF_TURNS = VALUES | {LONGER_BACKWARD}
"""What the turns of its loop look like there, backward pass included."""
WIRED = frozenset({ADDED_INPUT, REORDERED_OPERANDS, OTHER_OPERAND, LIVE_TENSOR, OUTPUT_ORDER})
"""What a graph looks like that takes other ones of the tensors that are stored and new."""
SLICED = frozenset({PYTHON_INDEX, ATTRIBUTE})
"""What it looks like, where a loop slices in each turn, that other turns do so."""
COIN_FIX = say(
    "Python draws in each turn of the loop which value goes on, and every pattern of draws is a "
    "graph of its own. Draw for all turns on the host, send it as one tensor a step, compute both "
    "values, and let the device pick: ",
    Code("torch.where(coins[t], one, other)"),
    ".",
)
STORE_FIX = say(
    "Python draws which tensors come out of the store and which are put there, and every pattern "
    "of draws is a graph of its own. Keep what is stored as one tensor, draw places and coins on "
    "the host, and send them: ",
    Code("store.index_select(0, places)"),
    ", ",
    Code("torch.where(coins, old, new)"),
    ", ",
    Code("store.index_copy(0, places, kept)"),
    ". Or keep the store on the host.",
)


class LeavesTurns(Protocol):
    """What decides over the run about the turns of a loop."""

    def leaves(self, places: Sequence[Place], /) -> bool:
        """Whether all that is left of a graph comes of it."""
        ...


OfTurns = TypeVar("OfTurns", bound=LeavesTurns)


@dataclass(frozen=True, slots=True)
class AsDrawn:
    """Says the cause of a single graph as what Python draws over the run."""

    draw: SourceLine
    """Where it draws."""
    loop: SourceLine | None
    """Whose turns it draws for; None for what comes out of a store."""
    lines: frozenset[int]
    """Of the draw's file, that it decides about."""
    turns: frozenset[int]
    """Those of them that slice what the turn of a loop says."""
    others: frozenset[int] = frozenset()
    """Lines of the draw's file that other draws decide about."""

    @property
    def kind(self) -> Kind:
        """What it is filed under."""
        return OTHER_OPERAND if self.loop else ADDED_INPUT

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause comes of what is drawn as well."""
        return self.shows_in(cause) or self.may_make(cause)

    def shows_in(self, cause: Cause) -> bool:
        """Whether a cause stands on a line that the draw decides about."""
        frames = [one for one in own_frames(cause) if one.file == self.draw.file]
        if cause.kind in SLICED:
            return any(one.line in self.turns for one in frames[:1])
        if self.loop is None:
            return _is_stored(cause) and any(one.line in self.lines for one in frames[:1])
        return cause.kind in VALUES and self.decides_about(cause.place)

    def may_make(self, cause: Cause) -> bool:
        """Whether a cause is a piece of the same loop, in its backward pass perhaps.

        Where coins fell otherwise in several turns at once, pieces of these turns pair as they may,
        and gradients flow on through what was picked. What another draw decides is its own.
        """
        return cause.kind in PIECES_OF_TURNS and self.is_in_turn(cause.place)

    def is_in_turn(self, place: Place) -> bool:
        """Whether what stands at a place runs in the turns of the loop, as no other draw says."""
        line, loop = place.line, self.loop
        if loop is None or line is None:
            return False
        frames = frames_from(place) or [line]
        is_others = any(f.file == self.draw.file and f.line in self.others for f in frames)
        return not is_others and is_in_turn_of(loop, frames)

    def leaves(self, places: Sequence[Place]) -> bool:
        """Whether all that is left of a graph stands in its turns, and some where it decides."""
        return all(map(self.is_in_turn, places)) and any(map(self.decides_about, places))

    def decides_about(self, place: Place) -> bool:
        """Whether the draw says if what stands at a place is used."""
        frames = frames_from(place)
        return any(one.file == self.draw.file and one.line in self.lines for one in frames)

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with what is drawn."""
        which, short, fix, short_fix = self._words()
        graphs = count(len(members), "graph")
        there = replace(cause.place, line=self.draw, stack=(self.draw,), source=())
        return replace(
            cause,
            kind=self.kind,
            title=say("what Python draws", at((self.draw,)), which, f": {graphs}"),
            fix=fix,
            short=short,
            short_fix=short_fix,
            place=cause.place if self.shows_in(cause) else there,
        )

    def alone(self, members: Sequence[GraphNode]) -> Cause:
        """The same for graphs of none of which a single cause is known."""
        bare = Cause(
            kind=self.kind,
            title=EMPTY,
            evidence=(),
            fix=EMPTY,
            share=0.0,
            proved=False,
            proof=EMPTY,
            expected=False,
            a=frozenset(),
            b=frozenset(),
        )
        return self(bare, members)

    def _words(self) -> tuple[Message, Message, Message, Message]:
        if self.loop:
            return (
                say(" decides which value goes on in each turn of the loop", at((self.loop,))),
                say("a Python draw picks the value in each turn"),
                COIN_FIX,
                say("Send the coins as one tensor, and pick with torch.where."),
            )
        return (
            say(" decides which of the tensors that are stored, and of new ones, go on"),
            say("Python draws which stored tensors are used"),
            STORE_FIX,
            say("Keep the store as one tensor; send places and coins."),
        )


def drawn(
    causes: Iterable[tuple[GraphNode, Cause]],
    program: ProgramText,
    unexplained: Iterable[GraphNode] = (),
) -> dict[str, AsDrawn]:
    """Digest to what is said of graphs that differ in what Python has drawn.

    Args:
        causes: graphs with their main cause, or with several that are asked in turn.
        program: what is known of its text.
        unexplained: graphs without a cause. They tell of a coin if all that is left in them stands
            at lines that it decides about: where coins fall otherwise in several turns at once,
            no single piece leads to a cause.
    """
    known = list(causes)
    stores = dict.fromkeys(one for _, cause in known if (one := _store(cause, program)))
    found: defaultdict[AsDrawn, dict[str, None]] = defaultdict(dict)
    for node, cause in known:
        of_store = (one for one in stores if one.accounts_for(cause))
        one = next(of_store, None) or _coin(cause, node.call_site, program)
        if one:
            found[one][node.digest] = None
    for node in unexplained:
        if one := _left_coin(node, program):
            found[one][node.digest] = None
    told = {d: one for one, digests in found.items() if len(digests) >= MANY for d in digests}
    at = dict.fromkeys(
        (told[node.digest], node.call_site) for node, _ in known if node.digest in told
    )
    for node, cause in known:
        here = (one for one, ends in at if ends == node.call_site and one.may_make(cause))
        if node.digest not in told and (one := next(here, None)):
            told[node.digest] = one
    return told


def left_in_turns(
    nodes: Sequence[GraphNode], told: Mapping[str, OfTurns], asked: Iterable[GraphNode]
) -> dict[str, OfTurns]:
    """Digest to draw, or condition, of those of some graphs all of whose pieces it leaves.

    Where coins fall otherwise in several turns at once, one for the value and one against it, the
    pieces of these turns stand against each other, and undoing one of them leads nowhere.

    Args:
        nodes: all graphs.
        told: by digest what is said of those whose causes show it.
        asked: graphs without a cause.
    """
    ends = dict.fromkeys((n.call_site, told[n.digest]) for n in nodes if n.digest in told)
    found: dict[str, OfTurns] = {}
    for node in asked:
        places = node.explanation.left_at if node.explanation else ()
        here = (one for site, one in ends if site == node.call_site and one.leaves(places))
        if one := next(here, None):
            found[node.digest] = one
    return found


def is_in_turn_of(loop: SourceLine, frames: Iterable[SourceLine]) -> bool:
    """Whether any of these frames stands behind a loop's head, in its function."""
    return any(one.scope == loop.scope and one.line > loop.line for one in frames)


def _store(cause: Cause, program: ProgramText) -> AsDrawn | None:
    """The draw of a tensor that a graph takes in and others do not."""
    frame = next(iter(own_frames(cause)), None)
    if cause.kind is not ADDED_INPUT or not _is_stored(cause) or not frame:
        return None
    draws = _draws(frame, program)
    draw = draws.takes(frame.line) if draws else None
    if not draws or not draw:
        return None
    lines = frozenset(draws.lines)
    return AsDrawn(frame._replace(line=draw.line), None, lines, draws.turns())


def _is_stored(cause: Cause) -> bool:
    """Whether it may be of tensors that the program keeps: not of a model's or an optimizer's."""
    return cause.kind in WIRED and all(one.role is Role.TENSOR for one in cause.place.tensors)


def _left_coin(node: GraphNode, program: ProgramText) -> AsDrawn | None:
    """The one coin that decides about all lines at which something is left unexplained."""
    places = node.explanation.left_at if node.explanation else ()
    coins = {_coin_at(frames_from(place), node.call_site, program) for place in places}
    one = coins.pop() if len(coins) == 1 else None
    return one if one and all(map(one.decides_about, places)) else None


def _coin(cause: Cause, ends: SourceLine | None, program: ProgramText) -> AsDrawn | None:
    one = _coin_at(own_frames(cause), ends, program)
    return one if one and one.shows_in(cause) else None


def _coin_at(
    frames: Sequence[SourceLine], ends: SourceLine | None, program: ProgramText
) -> AsDrawn | None:
    """The draw that decides about a line in each turn of a loop within the step.

    Args:
        frames: the line, and what called it.
        ends: where its step ends; what is around that function is no loop of the step.
        program: what is known of its text.
    """
    for k, frame in enumerate(frames):
        draws = _draws(frame, program)
        draw = draws.decides(frame.line) if draws else None
        if draws and draw:
            loop = _loop(frames[k:], ends, program)
            if loop is None or (loop.function == frame.function and not draw.is_of(loop.line)):
                return None
            lines, others = _decided(draws, draw)
            at_draw, turns = frame._replace(line=draw.line), lines & draws.turns()
            return AsDrawn(at_draw, loop, lines, turns, others)
    return None


def _decided(draws: Draws, draw: Draw) -> tuple[frozenset[int], frozenset[int]]:
    """The lines that the same draw decides about, and those that others do."""
    found = {k: one.line for k in draws.lines if (one := draws.decides(k))}
    own = frozenset(k for k, line in found.items() if line == draw.line)
    return own, frozenset(found).difference(own)


def _loop(
    frames: Sequence[SourceLine], ends: SourceLine | None, program: ProgramText
) -> SourceLine | None:
    """The innermost loop around some frames that runs within a step."""
    around = enclosing(program.lines, frames_in_step(frames, ends))
    if around is None or (around.loop.file, around.loop.line) in program.step_loops:
        return None
    return around.loop


def frames_in_step(frames: Sequence[SourceLine], ends: SourceLine | None) -> Sequence[SourceLine]:
    """Some frames, innermost first, up to the function in which the step ends."""
    functions = [(frame.file, frame.function) for frame in frames]
    end = (ends.file, ends.function) if ends else None
    return frames[: functions.index(end) + 1] if end in functions else frames


def _draws(frame: SourceLine, program: ProgramText) -> Draws | None:
    lines = program.lines.get(frame.file, {})
    return draws_around(lines, frame.line) if frame.line in lines else None


def own_frames(cause: Cause) -> list[SourceLine]:
    """The program's own frames around the line of a cause's forward pass, innermost first."""
    return frames_from(cause.place)


def frames_from(place: Place) -> list[SourceLine]:
    """The same for a place."""
    line = place.line
    if line is None or line.is_library or line.backward_of:
        return []
    plain = line._replace(called=None)
    stack = [frame for frame in place.stack if not frame.is_library]
    return stack[stack.index(plain) :] if plain in stack else [plain]
