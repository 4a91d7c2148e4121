"""Blocks of a model, or their updates, that some steps leave out: LayerDrop, an adapter by turns.

Each graph trains another subset of the same parameters, and subsets come and go. What else differs
between such graphs (which state there is, which numbers are equal, how many gradients are joined)
comes of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import enclosing, guard, has_condition
from xlagraph.message import count, join, say
from xlagraph.rules.distributed.buckets import BUCKET_CARRY
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.training.accumulated_gradient import ACCUMULATED_GRADIENT
from xlagraph.rules.training.optimizer_state import (
    NEWLY_UPDATED,
    OPTIMIZER_STATE,
    SKIPPED_BLOCK,
)
from xlagraph.runs.causes.drawn import frames_from, frames_in_step
from xlagraph.runs.causes.draws import draws_around
from xlagraph.runs.graphs.weights import Weights, weights_by_digest
from xlagraph.runs.kinds import CHANGING_UPDATES
from xlagraph.runs.model import CauseGroup, Meant
from xlagraph.runs.steps.spent import together
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.message import Message, SourceLine
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode

    Names = frozenset[Tensor]

SHOWN = 4
SECOND_TURN = (
    ACCUMULATED_GRADIENT,
    NEWLY_UPDATED,
    OPTIMIZER_STATE,
    SHARED_SCALAR,
    SPECIAL_SCALAR,
)
"""What the second turn of a choice may differ in from the first."""
STAGE = 3
"""Hits of a choice from which on it is no draw."""
NOT_KNOWN = (Meant.EARLY, Meant.SETTLED)
"""How graphs are meant of which it is only known that they ran again; beside one that is a problem
they are of it."""
MANY = 3
"""Choices of what is updated from which on they come of the data: two take turns by design."""

LAYERDROP_FIX = say(
    "The model's own code in transformers draws on the host which layers run (LayerDrop), which "
    "some configurations ask for by default: give the model's configuration a layerdrop of 0 "
    "(layerdrop=0.0, or encoder_layerdrop=0.0 and decoder_layerdrop=0.0), and use dropout instead, "
    "which the device draws."
)
LAYERDROP_SHORT_FIX = say("Set the configuration's layerdrop to 0; some have 0.1 by default.")
_TRANSFORMERS = "/transformers/models/"
_LEAVES_OUT = re.compile(r"\s*(?:continue|if not \w*(?:drop|skip)\w*\b.*:)\s*(?:#.*)?")
_LAYER = re.compile(r"(?:.*\.)?(?:layers?|blocks?|h)\.\d+")


class Skipped(NamedTuple):
    """Graphs of one place that train other subsets of the parameters, back and forth."""

    digests: frozenset[str]
    """Those that differ in it from what they were compared with, or in what comes of it."""
    kind: Kind
    """Blocks that some of them leave out, or updates of what all of them take in."""
    paths: tuple[str, ...]
    """Of the modules, or parameters, that some of them leave out."""


def skipped_blocks(
    graphs: Sequence[CapturedGraph],
    nodes: Sequence[GraphNode],
    followed: Mapping[str, Iterable[str]],
) -> list[Skipped]:
    """The places of a program whose graphs leave out other blocks in turn.

    Args:
        graphs: of the run.
        nodes: the same graphs, explained.
        followed: by digest, which graphs ran in the next turn of its place.
    """
    weights = weights_by_digest(graphs)
    places: defaultdict[tuple[object, ...], list[GraphNode]] = defaultdict(list)
    for node in nodes:
        if weights[node.digest].trained and not node.by_design:
            places[node.call_site, node.sync_kind, node.rank].append(node)
    found = (_at_one_place(members, weights, followed) for members in places.values())
    parts = [node for node in nodes if not (weights[node.digest].trained or node.by_design)]
    return [one._replace(digests=one.digests | _parts(one, nodes, parts)) for one in found if one]


def _at_one_place(
    nodes: Sequence[GraphNode],
    weights: Mapping[str, Weights],
    followed: Mapping[str, Iterable[str]],
) -> Skipped | None:
    digests = {node.digest for node in nodes}
    turns = {(weights[x], weights[y]) for x in digests for y in followed.get(x, ()) if y in digests}
    pairs = [(x, y) for x, y in turns if x is not y]
    if _are_stages(nodes, weights, pairs):
        return None
    blocks = _all(x.trained - y.read for x, y in pairs) & _all(y.trained - x.read for x, y in pairs)
    if any("." in tensor.path for tensor in blocks):  # else parameters of no module within
        reads = list(dict.fromkeys(weights[digest].read for digest in sorted(digests)))
        left_out = _left_out(nodes, SKIPPED_BLOCK, lambda one: weights[one].read)
        return Skipped(left_out, SKIPPED_BLOCK, _modules(blocks, reads)) if left_out else None
    if any(_waits(node) for node in nodes):  # what waits in a bucket is updated in a later step
        return None
    gone = _all((x.trained & y.read) - y.trained for x, y in pairs)
    updates = gone & _all((y.trained & x.read) - x.trained for x, y in pairs)
    if not updates or len({weights[digest].trained for digest in digests}) < MANY:
        return None
    left_out = _left_out(nodes, CHANGING_UPDATES, lambda one: weights[one].trained)
    paths = tuple(sorted(tensor.path for tensor in updates))
    return Skipped(left_out, CHANGING_UPDATES, paths) if left_out else None


def _parts(
    skipped: Skipped, nodes: Sequence[GraphNode], asked: Iterable[GraphNode]
) -> frozenset[str]:
    """Graphs of a place that are parts of such steps, ended by a read, as of a loss that is logged.

    Each takes in or computes what others there do not, and compiled in a step in which a graph
    came that leaves out other blocks; or is the next part of the same step, compared with the one
    before. A part that ran elsewhere too has a reason of its own.
    """
    steps = {(node.rank, node.step) for node in nodes if node.digest in skipped.digests}
    places: defaultdict[tuple[object, ...], list[GraphNode]] = defaultdict(list)
    for node in asked:
        if node.sync_kind == "value" and not node.warm_up:
            places[node.call_site, node.rank].append(node)
    found = [
        members
        for members in places.values()
        if len(members) > 1
        and all((node.rank, node.step) in steps for node in members)
        and _are_pieces(members)
    ]
    return frozenset(node.digest for members in found for node in members)


def _are_pieces(nodes: Sequence[GraphNode]) -> bool:
    known = {(node.rank, node.step, node.digest) for node in nodes}
    firsts = [node for node in nodes if (node.rank, node.step, node.nearest) not in known]
    return all(map(_begins_with_piece, firsts))


def _begins_with_piece(node: GraphNode) -> bool:
    causes = node.explanation.causes if node.explanation else ()
    return bool(causes) and (causes[0].kind is ADDED_INPUT or causes[0].kind.is_piece)


def drawn_again(
    skipped: Iterable[Skipped],
    graphs: Sequence[CapturedGraph],
    nodes: Sequence[GraphNode],
    first_step: int,
) -> frozenset[str]:
    """Graphs of a choice that the first step had, which take in what that step made.

    They are its second turn, which comes when the choice is drawn again: state comes in, gradients
    are added to zeros, a rate begins to rise from 0. Where no block is left out
    that is warm-up.
    """
    weights = weights_by_digest(graphs)
    known = {node.digest: node for node in nodes}
    told = frozenset[str]().union(*(one.digests for one in skipped))
    places = {(known[digest].call_site, known[digest].rank) for digest in told}
    found = []
    for node in nodes:
        first, outcome = known.get(node.nearest), node.explanation
        if node.digest in told or first is None or outcome is None or not outcome.proved:
            continue
        is_there = all((one.call_site, one.rank) in places for one in (first, node))
        is_again = weights[node.digest].read == weights[first.digest].read
        kinds = [one.kind for one in outcome.causes]
        adds = kinds[:1] == [ACCUMULATED_GRADIENT]  # also to those behind no name
        turns = (*SECOND_TURN, ADDED_INPUT) if adds else SECOND_TURN
        is_turn = all(one.expected or one.kind in turns for one in outcome.causes)
        if is_there and is_again and is_turn and first.warm_up and first.step <= first_step:
            found.append(node.digest)
    return frozenset(found)


def _are_stages(
    nodes: Sequence[GraphNode],
    weights: Mapping[str, Weights],
    pairs: Iterable[tuple[Weights, Weights]],
) -> bool:
    """Whether each choice runs for some steps and never comes again: layers trained in turn."""
    hits: defaultdict[Weights, int] = defaultdict(int)
    for node in nodes:
        hits[weights[node.digest]] += node.hits
    later: defaultdict[int, list[int]] = defaultdict(list)
    for x, y in pairs:
        later[id(x)].append(id(y))
    try:
        TopologicalSorter(later).prepare()
    except CycleError:
        return False
    return min(hits.values()) >= STAGE


def _waits(node: GraphNode) -> bool:
    causes = node.explanation.causes if node.explanation else ()
    return any(cause.kind is BUCKET_CARRY for cause in causes)


def _all(sets: Iterable[Names]) -> Names:
    return frozenset[Tensor]().union(*sets)


def _left_out(
    nodes: Sequence[GraphNode], kind: Kind, choice: Callable[[str], Names]
) -> frozenset[str]:
    """The graphs of another choice than what they were compared with, or of what comes of it."""
    differ = [
        node
        for node in nodes
        if node.explanation
        and not node.begins_reading
        and (
            choice(node.digest) != choice(node.nearest)
            or any(one.kind.id in kind.entails for one in node.explanation.causes[:1])
        )
    ]
    found = {node.digest for node in differ if not (node.warm_up or node.meant)}
    alike = {node.digest for node in differ if node.meant in NOT_KNOWN}
    return frozenset(found | alike if found else ())


def _modules(changing: Names, reads: Sequence[Names]) -> tuple[str, ...]:
    """Paths of the modules that hold these parameters, and none of another choice; largest first.

    A choice: which graphs take a parameter in.
    """
    choices: defaultdict[tuple[bool, ...], list[str]] = defaultdict(list)
    for tensor in frozenset[Tensor]().union(*reads):
        choice = tuple(tensor in read for read in reads) if tensor in changing else ()
        choices[choice].append(tensor.path)
    owners: defaultdict[str, set[tuple[bool, ...]]] = defaultdict(set)
    for choice, paths in choices.items():
        for path in paths:
            for owner in _owners(path):
                owners[owner].add(choice)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for choice in filter(None, choices):
        for path in choices[choice]:
            found[next((o for o in _owners(path) if owners[o] == {choice}), path)].append(path)
    largest = sorted(found.values(), key=lambda paths: (-len(paths), min(paths)))
    return tuple(map(_common, largest))


def _common(paths: Sequence[str]) -> str:
    """The innermost module that all of these parameters lie in; of one parameter its own path."""
    if len(paths) == 1:
        return paths[0]
    first, last = min(paths).split("."), max(paths).split(".")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return ".".join([name for name, _ in same])


def _owners(path: str) -> list[str]:
    """The modules that a parameter lies in, the outermost first."""
    names = path.split(".")
    return [".".join(names[:k]) for k in range(1, len(names))]


def block_groups(
    skipped: Iterable[Skipped], nodes: Sequence[GraphNode], program: ProgramText
) -> tuple[CauseGroup, ...]:
    """One group for each place whose graphs leave out blocks."""
    return tuple(
        _group(one, [node for node in nodes if node.digest in one.digests], program)
        for one in skipped
    )


def _group(skipped: Skipped, members: Sequence[GraphNode], program: ProgramText) -> CauseGroup:
    is_block = skipped.kind is SKIPPED_BLOCK
    place = _place(members, (ADDED_INPUT, NEWLY_UPDATED) if is_block else (NEWLY_UPDATED,))
    if is_block and not place.stack:
        place = _drawn_piece(members, program) or place
    is_called = is_block and bool(place.stack)  # else it is where the step ends
    caller = _caller(place) if is_called else None
    draw = _draw(place, program) if is_called else None
    decided = draw or (_turn(members, place, program) if is_called else None)
    is_drop = is_block and not decided and _is_layerdrop(skipped, place, program)
    if is_drop and not any(_TRANSFORMERS in frame.file for frame in place.stack):
        place = _in_model(members) or place
    return CauseGroup(
        kind=skipped.kind,
        title=say(
            _what(skipped),
            at((place.line,) if place.line else ()),
            *((", called at ", caller) if caller else ()),
            *((", as Python draws", at((draw,))) if draw else ()),
            f": {count(len(members), 'graph')} of another choice of them than the graphs before",
        ),
        cause=None,
        further=(),
        graphs=tuple(node.digest for node in members),
        compiles=sum(node.compiles for node in members),
        spent=together([node.spent for node in members]),
        expected=False,
        proved=False,
        place=_moved(place, decided) if decided else place,
        mend=(LAYERDROP_FIX, LAYERDROP_SHORT_FIX) if is_drop else (),
    )


def _is_layerdrop(skipped: Skipped, place: Place, program: ProgramText) -> bool:
    """Whether a model of transformers, which the program calls, leaves out layers in its loop."""
    if not any(_LAYER.fullmatch(path) for path in skipped.paths):
        return False
    if not any(_TRANSFORMERS in frame.file for frame in place.stack):
        # where the step ends, or its update is: nothing else there leaves out layers of its models
        return any(_TRANSFORMERS in file for file in program.lines)
    called = takewhile(lambda frame: frame.is_library, place.stack)
    return any(
        _TRANSFORMERS in frame.file and _is_left_out(program.lines.get(frame.file, {}), frame.line)
        for frame in called
    )


def _causes(nodes: Iterable[GraphNode]) -> list[Cause]:
    """The causes of all these graphs."""
    return [c for node in nodes if node.explanation for c in node.explanation.causes]


def _in_model(members: Sequence[GraphNode]) -> Place | None:
    """Where the program calls a model of transformers, as one of these graphs tells."""
    causes = _causes(members)
    places = (c.place for c in causes if any(_TRANSFORMERS in one.file for one in c.place.stack))
    found = next(places, None)
    return replace(found, tensors=()) if found else None


def _is_left_out(lines: Mapping[int, str], number: int) -> bool:
    """Whether a line of a library stands behind what leaves out a turn of its loop."""
    above = [lines.get(k, "").strip() for k in range(number - 1, number - 4, -1)]
    text = next((one for one in above if one and not one.startswith("#")), "")
    return bool(_LEAVES_OUT.fullmatch(text))


def _what(skipped: Skipped) -> Message:
    paths = join((Tensor("", path) for path in skipped.paths), SHOWN)
    number = len(skipped.paths)
    if skipped.kind is SKIPPED_BLOCK:
        verb = "takes" if number == 1 else "take"
        blocks = count(number, "block")
        return say(f"{blocks} of the model (", paths, f") {verb} part in some steps only")
    verb = "is" if number == 1 else "are"
    parameters = count(number, "parameter")
    return say(f"{parameters} (", paths, f") {verb} updated in some steps and only read in others")


def _caller(place: Place) -> SourceLine | None:
    """The line of the program, in another function, from which the block's own line was called."""
    own = [frame for frame in place.stack if not frame.is_library]
    line = place.line.forward._replace(called=None) if place.line else None
    after = own[own.index(line) + 1 :] if line in own else []
    return next((frame for frame in after if not frame.function.startswith("<")), None)


def _draw(place: Place, program: ProgramText) -> SourceLine | None:
    """Where Python draws whether the line of a place runs, or a call that leads there."""
    for frame in frames_from(place):
        lines = program.lines.get(frame.file, {})
        draw = draws_around(lines, frame.line).decides(frame.line) if frame.line in lines else None
        if draw:
            return frame._replace(line=draw.line)
    return None


def _drawn_piece(members: Sequence[GraphNode], program: ProgramText) -> Place | None:
    """Where a piece stands of which Python draws whether it runs.

    Weights that an optimizer moves in every step are inputs of graphs without their block, too.
    """
    causes = _causes(members)
    places = (cause.place for cause in causes if cause.kind.is_piece and cause.place.stack)
    found = next((place for place in places if _draw(place, program)), None)
    return replace(found, tensors=()) if found else None


def _turn(members: Sequence[GraphNode], place: Place, program: ProgramText) -> SourceLine | None:
    """The condition, or the call, in a loop within the step of which each turn runs a block.

    A condition that goes on with the next turn before the call is one too. Which line of a function
    returns for a block is no matter of whether the block runs. None where another condition nearer
    to the block may decide, or where no such loop is in sight.
    """
    within = frames_in_step(_shared(members, place, program), members[0].call_site)
    for frame in within:
        around = enclosing(program.lines, [frame])
        if around:
            is_step = around.loop[:2] in program.step_loops
            if is_step:
                return None
            return around.branch or guard(program.lines, frame) or _named(frame, within)
        if has_condition(program.lines, frame):
            return None
    return None


def _shared(members: Sequence[GraphNode], place: Place, program: ProgramText) -> list[SourceLine]:
    """The frames of a place, from the call on if other blocks return at other lines behind it."""
    frames = frames_from(place)
    causes = _causes(members)
    found = [frames, *(frames_from(c.place) for c in causes if c.kind is ADDED_INPUT)]
    called = {one[0] for one in found if one and one[1:] == frames[1:]}
    texts = [program.lines.get(one.file, {}).get(one.line, "") for one in called]
    is_other = len(called) > 1 and all(text.split()[:1] == ["return"] for text in texts)
    return frames[1:] if is_other else frames


def _named(frame: SourceLine, frames: Sequence[SourceLine]) -> SourceLine:
    """A frame of a comprehension as one of the function around it."""
    outer = frames[frames.index(frame) :]
    return next((one for one in outer if not one.function.startswith("<")), frame)


def _moved(place: Place, line: SourceLine) -> Place:
    return replace(place, line=line, stack=_from(line, place.stack))


def _from(line: SourceLine, stack: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
    """A line of a function that is on a stack, and the calls that led to the function."""
    functions = [(one.file, one.function) for one in stack]
    return (line, *stack[functions.index((line.file, line.function)) + 1 :])


def _place(members: Sequence[GraphNode], kinds: Sequence[Kind]) -> Place:
    """Where a cause of the first of these kinds that one of the graphs has stands; else their end.

    Weights that only some graphs update are also those of blocks that the others leave out.
    """
    causes = _causes(members)
    found = (one for kind in kinds for one in causes if one.kind is kind and one.place.line)
    cause = next(found, None)
    if cause is None:
        return Place(members[0].call_site)
    is_near = cause.place.is_near and cause.lines  # a line of the forward pass updates nothing
    return Place(cause.lines[0]) if is_near else replace(cause.place, tensors=())
