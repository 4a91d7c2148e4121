"""Graphs of one line that differ in how much they compute: growth, or a loop's other length."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import enclosing
from xlagraph.facts.shapes.size_makers import LISTED
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.message import count, join, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.runs.causes.kept import kept
from xlagraph.runs.causes.lists import LIST_SHORT
from xlagraph.runs.kinds import GROWING_GRAPH
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.facts.program.enclosing import Enclosing, ProgramText
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.steps.turns import Turns

MANY = 3
"""So many graphs in a row, each larger than the one before, are growth."""
EVEN = 0.1
"""How far from a whole number of turns the sizes of a loop's graphs may be, in turns."""
FEW_EVEN = 0.05
"""The same of two graphs, where a loop is known to stand there."""
BEGINNING = {ADDED_INPUT, LIVE_TENSOR, OUTPUT_ORDER, PYTHON_SIZE, REORDERED_OPERANDS}
"""What the first step differs in that takes a growing input in."""
BAKED = (PYTHON_SIZE, PYTHON_INDEX, ATTRIBUTE)
"""What Python numbers of one line set: how long a span is, where it begins, what fits around it."""
LOOPED = frozenset({EXTRA_SUBGRAPH})
"""What a loop of another length looks like; of pieces that are known better more is known.

Where a piece stands in place of another, as a branch in a loop picks, the loop is as long."""
LOOP_FIX = say(
    "If a Python loop or list has another length there: give it the same one in every step, or "
    "one of a few (pad the list and mask what is not used, round the number of turns up)."
)

BRANCH_FIX = say(
    "A condition in Python decides in each turn whether this is computed, and every pattern is a "
    "graph of its own. Compute it in every turn, and let the device pick: torch.where(condition, "
    "new, old), or a factor that is 1 where nothing is to be done, with a condition that is a "
    "tensor (no .item(), no .tolist())."
)
READING_FIX = say(
    "A Python loop reads a value in each turn, which cuts the graph there, and most likely ends by "
    "it: give it a fixed number of turns and read nothing in it (torch.where keeps what has "
    "converged as it is), or read only once in so many turns, so that few lengths are left."
)
READING_SHORT = say("Give the loop a fixed length, and read nothing in it.")
JOINED_SHORT = say("A list of tensors that is joined grows with every step")
JOINED_FIX = say(
    "A list, or what stands for one, is joined there (torch.stack, torch.cat) and has more tensors "
    "in each step. Where a step needs no older ones, empty it in each step (clear(), reset() of a "
    "metric); else keep a running value that is updated in place, or plain numbers (fetched after "
    "torch_xla.sync()), or bound the list."
)
DETACH_FIX = say(
    "Something that is kept from step to step was never detached, so each backward pass goes "
    "through all steps before it: detach the old value where the new one is computed from it "
    "(.detach()), or compute it under torch.no_grad()."
)


def main_line(cause: Cause) -> SourceLine | None:
    """The first source line that a cause cites."""
    return next(iter(cause.lines), None)


def is_made_in_library(cause: Cause) -> bool:
    """Whether a library makes a tensor of another size: it takes that from what it is given."""
    line = main_line(cause)
    called = line.called if line else None
    return cause.kind is PYTHON_SIZE and called is not None and called.is_library


def growing(nodes: Sequence[GraphNode], turns: Turns) -> dict[SourceLine | None, list[GraphNode]]:
    """The graphs that grow from turn to turn of one place, by the line where they do.

    Each but the first compiled in the turn after the one that it is compared with. None ran again
    but in this order, from the first one on (what is kept is dropped after an epoch): where an
    earlier length comes again, nothing was kept. What grows need not be the largest difference.
    """
    known = {node.digest: node for node in nodes}
    looped = _read_in_loops(nodes)
    chains: dict[tuple[SourceLine | None, str], list[GraphNode]] = {}
    for node, line in _growing_lines(nodes):
        before = known.get(node.nearest)
        if before is None or before.instructions >= node.instructions:
            continue
        is_turn = node.step == before.step and node.call_site in looped
        is_next = (before.digest, node.digest) in turns.in_a_row and not is_turn
        earlier = chains.pop((line, before.digest), []) if is_next else []
        chains[line, node.digest] = [*earlier, node]
    found: defaultdict[SourceLine | None, list[GraphNode]] = defaultdict(list)
    for (line, _), chain in chains.items():
        if len(chain) >= MANY and _runs_in_order(chain, turns.followed):
            found[line] += chain
    for node, line in _growing_lines(nodes):
        chain = found.get(line, [])
        is_next = bool(chain) and (chain[-1].digest, node.digest) in turns.in_a_row
        if is_next and chain[-1].instructions < node.instructions:
            chain.append(node)  # compared with an earlier one, which it is like in all else
    return found


def _read_in_loops(nodes: Sequence[GraphNode]) -> set[SourceLine | None]:
    """Lines that read values several times in more than one step: turns of a loop, begun anew."""
    steps: defaultdict[SourceLine | None, list[int]] = defaultdict(list)
    for node in nodes:
        if node.sync_kind == "value":
            steps[node.call_site].append(node.step)
    return {line for line, found in steps.items() if len(set(found)) > 1}


def _growing_lines(nodes: Sequence[GraphNode]) -> Iterator[tuple[GraphNode, SourceLine | None]]:
    """The graphs beyond warm-up, with the line of their first cause that can make a graph grow."""
    for node in nodes:
        causes = node.explanation.causes if node.explanation and not node.warm_up else ()
        fitting = [cause for cause in causes if cause.kind.may_grow or cause.kind.is_piece]
        if fitting:
            yield node, main_line(fitting[0])


def _runs_in_order(chain: Sequence[GraphNode], followed: Mapping[str, set[str]]) -> bool:
    digests = [node.digest for node in chain]
    allowed = {*pairwise(digests), *((digest, digests[0]) for digest in digests[1:])}
    return all((x, y) in allowed for x in digests for y in followed.get(x, ()) if y in set(digests))


def growing_inputs(nodes: Sequence[GraphNode], turns: Turns) -> dict[str, SourceLine | None]:
    """Digest to line of graphs that belong to a carried input that grows.

    The growth is known where a graph is compared with the one of the turn before. Others are one
    of another length that ran in the next turn, and the first one that takes the input in at all.
    """
    grown = list(_with_line(nodes, lambda cause: cause.kind is GROWING_INPUT))
    lines = {node.digest: line for node, line in grown}
    used = {line: known for node, known in grown for line in (known, *_lines(node))}
    first = {node.nearest for node in nodes if node.digest in lines}
    for node, line in _with_line(nodes, lambda cause: cause.kind is INPUT_SHAPE):
        before = [d for d, known in lines.items() if line in used and known == used[line]]
        if any((d, node.digest) in turns.in_a_row for d in before):
            lines[node.digest] = used[line]
    lines |= _used_elsewhere(nodes, grown)
    for node in nodes:
        if node.digest in first and node.digest not in lines and _begins_growth(node):
            after = next(n for n in nodes if n.nearest == node.digest and n.digest in lines)
            lines[node.digest] = lines[after.digest]
    return lines


def _used_elsewhere(
    nodes: Sequence[GraphNode], grown: Iterable[tuple[GraphNode, SourceLine | None]]
) -> dict[str, SourceLine | None]:
    """Digest to line of graphs of other places that take in what grew, as long as it is by then."""
    lengths = {one: line for node, line in grown if (one := _lengths(node))}
    found: defaultdict[tuple[SourceLine | None, SourceLine | None], list[str]] = defaultdict(list)
    for node, _ in _with_line(nodes, lambda cause: cause.kind is INPUT_SHAPE):
        if (one := _lengths(node)) and one in lengths:
            found[lengths[one], node.call_site].append(node.digest)
    return {d: line for (line, _), those in found.items() if len(those) >= MANY for d in those}


def _lengths(node: GraphNode) -> frozenset[tuple[int, int]]:
    """The sizes, before and after, of those that differ in what its explanation cites first."""
    outcome = node.explanation
    if outcome is None or outcome.first_a is None or outcome.first_b is None:
        return frozenset()
    changed = changed_sizes(outcome.first_a.shape, outcome.first_b.shape)
    return frozenset((old, new) for _, old, new in changed)


def _lines(node: GraphNode) -> tuple[SourceLine, ...]:
    """All lines of its first cause: where an input is used first, and where it is made longer."""
    return node.explanation.causes[0].lines if node.explanation else ()


def _begins_growth(node: GraphNode) -> bool:
    """Whether all that differs is a tensor more that comes in, and what follows from its size."""
    causes = node.explanation.causes if node.explanation and not node.warm_up else ()
    kinds = {cause.kind for cause in causes if not cause.expected}
    return ADDED_INPUT in kinds and kinds <= BEGINNING


def uneven_loops(
    nodes: Sequence[GraphNode], program: ProgramText, reading: Collection[SourceLine]
) -> dict[str, SourceLine | None]:
    """Digest to line of graphs that stand about equal pieces apart, one or several.

    A piece in place of another is a branch, but where the loop reads a value: it ends by that. One
    of derivatives alone, in two graphs, is a backward pass that is derived again (`create_graph`).
    `reading`: such loops (`loops_that_read`). Two graphs are enough where the program's text has a
    loop: each is also compared with the steady state of the step that it differs from.
    """

    def are_few(members: Sequence[GraphNode], line: SourceLine | None) -> bool:
        is_forward = line is None or not line.backward_of
        is_in_loop = is_forward and _is_in_loop(members[0], line, program)
        return is_in_loop and _are_few_turns(members, nodes)

    def is_looped(cause: Cause) -> bool:
        if cause.kind is ADDED_INPUT:
            return _is_in_each_turn(cause, program)
        is_read = program.loop_in_step(main_line(cause)) in reading
        return cause.kind in LOOPED or (cause.kind is REPLACED_SUBGRAPH and is_read)

    sizes = {node.digest: node.instructions for node in nodes}
    lines: defaultdict[tuple[SourceLine | None, SourceLine | None], list[GraphNode]]
    lines = defaultdict(list)
    for node, line in _with_line([n for n in nodes if not _reads_each(n, program)], is_looped):
        lines[node.call_site, line].append(node)
    return {
        node.digest: line
        for (_, line), members in lines.items()
        if (len(members) >= MANY and _are_turns(members, sizes)) or are_few(members, line)
        for node in members
    }


def _reads_each(node: GraphNode, program: ProgramText) -> bool:
    """Whether a graph ends where a comprehension reads what was computed for it at once."""
    loop = program.loop_in_step(node.call_site) if node.sync_kind == "value" else None
    return loop is not None and not program.may_end_early(loop)


def _is_in_loop(node: GraphNode, line: SourceLine | None, program: ProgramText) -> bool:
    """Whether a loop within the step is around a line, or calls what runs it in every turn."""
    causes = node.explanation.causes if node.explanation else ()
    is_called = any(_is_in_each_turn(cause, program) for cause in causes[:1])
    return program.loop_in_step(line) is not None or is_called


def _is_in_each_turn(cause: Cause, program: ProgramText) -> bool:
    """Whether every turn of a loop within the step runs what a cause is of."""
    found = _loop_around(cause, program)
    return found is not None and found.branch is None


def _loop_around(cause: Cause, program: ProgramText) -> Enclosing | None:
    """The loop within the step that runs what a cause is of; None if none is in sight."""
    found = enclosing(program.lines, cause.place.stack or cause.lines[:1])
    return None if found is None or found.loop[:2] in program.step_loops else found


def loops_that_read(nodes: Sequence[GraphNode], program: ProgramText) -> frozenset[SourceLine]:
    """Where loops within a step begin in whose turns a value is read.

    A comprehension goes over what there is, and never ends by what it reads.
    """
    found = (program.loop_in_step(n.call_site) for n in nodes if n.sync_kind == "value")
    loops = (one for one in found if one is not None)
    return frozenset(filter(program.may_end_early, loops))


def _are_turns(members: Sequence[GraphNode], sizes: Mapping[str, int]) -> bool:
    """Whether graphs are turns apart, with what they were compared with or, as it sets up, not."""
    own = {sizes[node.digest] for node in members}
    return _evenly_apart(own) or _evenly_apart(own | {sizes[node.nearest] for node in members})


def _are_few_turns(members: Sequence[GraphNode], nodes: Sequence[GraphNode]) -> bool:
    """Whether two graphs are turns apart, and from one of those that the place began with."""
    own = {node.instructions for node in members}
    first = (n for n in nodes if n.warm_up and n.call_site == members[0].call_site)
    others = {node.instructions for node in first} - own
    return any(_evenly_apart(own | {size}, MANY - 1, FEW_EVEN) for size in others)


def _evenly_apart(sizes: Iterable[int], least: int = MANY, even: float = EVEN) -> bool:
    """Whether at least so many steps lie between sizes, each of them whole turns long."""
    steps = [y - x for x, y in pairwise(sorted(sizes))]
    if len(steps) < least:
        return False
    turns = [round(step / min(steps)) for step in steps]
    one = sum(steps) / sum(turns)
    return all(abs(step / one - k) <= even for step, k in zip(steps, turns, strict=True))


def _with_line(
    nodes: Sequence[GraphNode], fits: Callable[[Cause], bool]
) -> list[tuple[GraphNode, SourceLine | None]]:
    """The graphs beyond warm-up whose first cause is of such a sort, with its line.

    One that settled early is among them: it counts as warm-up for what it costs.
    """
    return [
        (node, main_line(node.explanation.causes[0]))
        for node in nodes
        if (not node.warm_up or node.meant is Meant.EARLY)
        and node.explanation
        and node.explanation.causes
        and fits(node.explanation.causes[0])
    ]


def as_growth(cause: Cause, grown: Sequence[GraphNode]) -> Cause:
    """The cause of a single step, said as what it is over the run: these graphs, one by one."""
    sizes = [node.instructions for node in grown]
    more = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    where_kept, evidence = kept(grown)
    is_history = cause.kind is LONGER_BACKWARD
    is_joined = cause.short == LISTED.short
    return replace(
        cause,
        kind=GROWING_GRAPH,
        title=say(
            "the graph grows with every step",
            at(cause.lines),
            f": {count(len(grown), 'graph')}, each about {count(round(more), 'instruction')} "
            "larger than the one before",
            where_kept,
        ),
        evidence=(*cause.evidence, *evidence),
        fix=DETACH_FIX if is_history else JOINED_FIX if is_joined else say(GROWING_GRAPH.fix),
        short=JOINED_SHORT if is_joined else say(),
        short_fix=say("Detach the old value (.detach()).")
        if is_history
        else LIST_SHORT
        if is_joined
        else say(),
    )


OF_TURNS = frozenset({LIVE_TENSOR, REORDERED_OPERANDS, SHARED_SCALAR, SPECIAL_SCALAR})
"""What follows from the number of a loop's turns where each of them reads a value."""


@dataclass(frozen=True, slots=True, eq=False)
class AsLoop:
    """Says the cause of a single step as the other length of a loop, which the sizes speak of."""

    program: ProgramText
    """What is known of the program's text, to find the loop."""
    nodes: Sequence[GraphNode]
    """All graphs of the run, to find the values that the loop reads."""

    def __call__(self, cause: Cause, members: Sequence[GraphNode]) -> Cause:
        """The cause with a place and a fix for the loop."""
        read = self._read(members) or self._read(self.nodes, cause.place.stack)
        told = _as_loop(cause, members)
        if read is not None:
            return replace(
                told,
                title=say(told.title, "; in each turn a value is read", at((read,))),
                fix=READING_FIX,
                short=say("A loop that reads a value has another length"),
                short_fix=READING_SHORT,
                place=Place(read),
            )
        found = _loop_around(cause, self.program)
        if found is None:
            return told
        if found.branch:
            return replace(
                told,
                title=say(
                    told.title, " or a condition holds more or less often", at((found.branch,))
                ),
                fix=BRANCH_FIX,
                short=say("a branch in a loop is taken more or less often"),
                short_fix=say("Compute it in every turn, and pick with torch.where."),
            )
        stack = cause.place.stack
        begin = next((k for k, f in enumerate(stack) if f.function == found.loop.function), 0)
        place = replace(cause.place, line=found.loop, stack=(found.loop, *stack[begin:]), source=())
        return replace(told, place=place)

    def _read(
        self, nodes: Sequence[GraphNode], around: Sequence[SourceLine] | None = None
    ) -> SourceLine | None:
        """Where most of these graphs end by reading a value, in a loop of a function around."""
        functions = {(frame.file, frame.function) for frame in around or ()}
        reads = Counter(n.call_site for n in nodes if n.sync_kind == "value" and n.call_site)
        lines = [line for line, _ in reads.most_common()]
        inside = [line for line in lines if self.program.loop_in_step(line) is not None]
        if around is None:
            return next(iter((*inside, *lines)), None)
        return next((line for line in inside if (line.file, line.function) in functions), None)

    def accounts_for(self, cause: Cause) -> bool:
        """Whether a cause beside the first one is of what the loop calls that reads a value.

        How often it ran decides which numbers are equal, and what is kept of its turns; what is
        not proved of such a graph most likely comes of them as well.
        """
        follows = cause.kind in OF_TURNS or not cause.proved
        if follows and loops_that_read(self.nodes, self.program):
            return True
        return self._read(self.nodes, cause.place.stack) is not None


def _as_loop(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    sizes = join((str(size) for size in sorted({node.instructions for node in members})), 6)
    return replace(
        cause,
        kind=EXTRA_SUBGRAPH,
        title=say(
            f"{count(len(members), 'graph')} compute the same more or less often",
            at(cause.lines),
            " (",
            sizes,
            " instructions), as when a Python loop or list has another length",
        ),
        fix=LOOP_FIX,
        short=say("A loop or a list has another length"),
        short_fix=say("Give the loop or list one length, or one of a few."),
    )
