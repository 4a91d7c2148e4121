"""A value that one side computes in another way than the other; the rest is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, operations, where
from xlagraph.facts.pieces.pieces import OUTPUT, Edge, inputs_of, open_edges, piece_of, pieces
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.formulas import is_weight
from xlagraph.facts.values.telling import MOVING, computed_with, opcodes_in_words
from xlagraph.message import A, B, count, join, say
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.extra_subgraph import BRANCH_FIX, EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import SourceLine

REPLACED_SUBGRAPH = Kind(
    id="replaced-subgraph",
    title="The same value is computed in another way",
    section=Section.PIECES,
    meaning="Control flow in Python took another branch: another activation, another loss, another "
    "order of operations that gives a value of the same shape. What comes before and behind it is "
    "the same.",
    before="""\
for step, (x, y) in enumerate(loader):
    hidden = model[0](x)
    hidden = torch.relu(hidden) if step % 4 else torch.tanh(hidden)
    update(loss_fn(model[2](hidden), y))
""",
    after="""\
smooth = torch.zeros((), dtype=torch.bool, device="xla")
torch_xla.sync()
for step, (x, y) in enumerate(loader):
    smooth.copy_(torch.tensor(step % 4 == 0))
    hidden = model[0](x)
    hidden = torch.where(smooth, torch.tanh(hidden), torch.relu(hidden))
    update(loss_fn(model[2](hidden), y))
""",
    evidence="Both pieces, and the framework operations that they come from.",
    fix=BRANCH_FIX,
    proof="Both pieces become one operation on the same inputs.",
    examples=(
        "other_activation",
        "scan_activation",
        "while_body_step",
        "nested_loop",
        "cond_branch",
        "call_step",
        "collectives_turned",
        "uniform_or_normal",
        "pooled_inside",
        "norm_before_layers",
    ),
    family=Family.BRANCH,
    is_piece=True,
    may_grow=True,
    short="A value is computed in another way",
    short_fix="Do the same work in every step, with torch.where for example.",
    may_be_meant=True,
)
EARLY_FIX = say(
    "The graph was cut there by a torch_xla.sync() of its own or by reading a value (.item(), "
    "print, a Python if on a tensor): leave that out, do it after the step's end, or do it in "
    "every step."
)
FORM_FIX = say(
    "An input comes ready in some steps and has to be cut, padded or put into another form in "
    "others: bring it into one form, with one shape, on the host before it is sent."
)
FORM_SHORT = say("An input comes in another form in some steps")
FORM_SHORT_FIX = say("Bring the input into one form before it is sent.")

FIRST_VALUES_FIX = say(
    "A layer that sets its weights by the first batch that it sees (ActNorm, a lazy module) has a "
    "graph of its own in that step, and costs one more compile. To save it, run one batch through "
    "the model without gradients before the loop, and call torch_xla.sync()."
)
FIRST_VALUES_SHORT_FIX = say("None if done once; or run one batch before the loop.")
FEWEST = 2
"""A layer that sets its weights by a batch has a scale and a bias at least."""
CACHE = "A cache is filled in "
CACHE_FIX = say(
    "Python keeps the values and computes them anew once something has dropped them, such as a "
    "reset of a cache by train(), eval() or a new epoch: the step that does so is another graph. "
    "Drop them only where what they are made of has changed, or compute them outside of the step, "
    "before the loop and followed by torch_xla.sync(), or in every step."
)
CACHE_SHORT_FIX = say("Look for what drops the cached values; fill the cache outside of the step.")


class Piece(NamedTuple):
    """What both sides compute in another way."""

    pairs: Sequence[tuple[int, int]]
    a: frozenset[int]
    b: frozenset[int]


def find(case: Case) -> list[Finding]:
    """A value is computed in one way by A and in another by B; the rest is the same.

    Values that other causes account for already, and that only take another way, are one finding.
    """
    a, b = case.a, case.b
    edges = [
        edge
        for edge in open_edges(case)
        if a.partners[edge.p] < 0
        and b.partners[edge.q] < 0
        and a.module.shapes[edge.p] == b.module.shapes[edge.q]
    ]
    own, taken = [], []
    for group in pieces(case, edges):
        if all(edge.p in a.claimed and edge.q in b.claimed for edge in group):
            taken += group
        else:
            own.append(group)
    return [_finding(case, group) for group in (*own, *([taken] if taken else []))]


def _finding(case: Case, edges: Sequence[Edge]) -> Finding:
    a, b = case.diff.a, case.diff.b
    pairs = sorted({(edge.p, edge.q) for edge in edges})
    piece_a = piece_of(case.a, [p for p, _ in pairs])
    piece_b = piece_of(case.b, [q for _, q in pairs])
    is_early = all(is_input(a, p) or is_input(b, q) for p, q in pairs)
    is_form = is_early and (
        (is_jitted(a) and is_jitted(b)) or (_is_form(case.a, piece_a) and _is_form(case.b, piece_b))
    )
    told_a, told_b = piece_a or {p for p, _ in pairs}, piece_b or {q for _, q in pairs}
    lines = where(b, piece_b) or where(a, piece_a)
    users_a = {edge.x for edge in edges if edge.place != OUTPUT}
    users_b = {edge.y for edge in edges if edge.place != OUTPUT}

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            inputs = inputs_of(
                case,
                {p} | piece_of(case.a, [p], with_claimed=True),
                {q} | piece_of(case.b, [q], with_claimed=True),
            )
            edit.a.become_undone(p, [x for x, _ in inputs])
            edit.b.become_undone(q, [y for _, y in inputs])

    renews = _renewing(case, pairs) if is_early and not is_form else None
    if renews is not None:
        piece = Piece(pairs, frozenset(piece_a | users_a), frozenset(piece_b | users_b))
        return _of_first_values(case, renews, piece, lines, undo)
    filled = _filled(case, pairs)
    if filled is not None:
        return _of_cache(case, filled, pairs, (piece_a, users_a), (piece_b, users_b), lines, undo)
    shape = short_shape(a, pairs[0][0])
    number = count(len(pairs), "value")
    return Finding(
        kind=INPUT_SHAPE if is_form else EARLY_EXECUTION if is_early else REPLACED_SUBGRAPH,
        title=say(
            f"{number} ({shape}) {'comes' if len(pairs) == 1 else 'come'} in as needed in one "
            "module and in another form in the other",
            at(lines),
            ": ",
            opcodes_in_words(a, piece_a, b),
            " in ",
            A,
            ", ",
            opcodes_in_words(b, piece_b, a),
            " in ",
            B,
        )
        if is_form
        else say(
            f"{number} that one module computes came ready-made into the other ({shape})",
            at(lines),
            ", as when part of the graph runs early",
        )
        if is_early
        else say(
            f"{number} ({shape}) {'is' if len(pairs) == 1 else 'are'} computed in another way",
            at(lines),
            ": ",
            opcodes_in_words(a, told_a, b),
            " in ",
            A,
            ", ",
            opcodes_in_words(b, told_b, a),
            " in ",
            B,
        ),
        evidence=(
            Evidence(
                say(
                    "a piece of ",
                    A,
                    operations(a, piece_a),
                    " and one of ",
                    B,
                    operations(b, piece_b),
                    " end in values that the rest of both modules uses alike",
                ),
                tuple(sorted(piece_a))[:50],
                tuple(sorted(piece_b))[:50],
                lines,
            ),
        ),
        fix=FORM_FIX if is_form else EARLY_FIX if is_early else say(),
        short=FORM_SHORT
        if is_form
        else say()
        if is_early
        else computed_with(case.diff, piece_a, piece_b),
        short_fix=FORM_SHORT_FIX if is_form else say(),
        proof=say("both pieces were replaced by one operation on the same inputs"),
        a=frozenset(piece_a | users_a),
        b=frozenset(piece_b | users_b),
        undo=undo,
    )


def _renewing(case: Case, pairs: Sequence[tuple[int, int]]) -> SideView | None:
    """The side that takes all of these values in as weights, and gives back new ones of them."""
    for _, taker in _ready_made(case, pairs):
        taken = {taker.mine(pair) for pair in pairs}
        are_weights = len(taken) >= FEWEST and all(is_weight(taker.module, i) for i in taken)
        if are_weights and taken <= renewed(taker.module).keys():
            return taker
    return None


def _ready_made(
    case: Case, pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[SideView, SideView]]:
    """The side that computes all of these values, and the one that takes them in, if so it is."""
    for maker, taker in case.both_ways:
        is_made = not any(is_input(maker.module, maker.mine(pair)) for pair in pairs)
        if is_made and all(is_input(taker.module, taker.mine(pair)) for pair in pairs):
            yield maker, taker


def _of_first_values(
    case: Case,
    taker: SideView,
    piece: Piece,
    lines: tuple[SourceLine, ...],
    undo: Callable[[Editors], None],
) -> Finding:
    """First values of weights that one side computes of its batch; the other takes weights in."""
    maker = case.b if taker.is_a else case.a
    made = sorted({maker.mine(pair) for pair in piece.pairs})
    shapes = join(dict.fromkeys(short_shape(maker.module, i) for i in made))
    number = count(len(made), "tensor")
    told = (maker.side, f" computes the first values of {number} (", shapes, ") that ", taker.side)
    cited_a, cited_b = maker.ab(tuple(made), ())
    return Finding(
        kind=INITIAL_STATE,
        title=say(*told, " takes in and renews", at(lines)),
        evidence=(Evidence(say(f"{number} computed, and renewed"), cited_a, cited_b, lines),),
        fix=FIRST_VALUES_FIX,
        short=say(*told, " takes in and renews, as in a first step"),
        short_fix=FIRST_VALUES_SHORT_FIX,
        proof=say("both pieces were replaced by one operation on the same inputs"),
        a=piece.a,
        b=piece.b,
        undo=undo,
    )


def _filled(case: Case, pairs: Sequence[tuple[int, int]]) -> SideView | None:
    """The side that computes all of these values and gives them back; the other takes them in."""
    for maker, _ in _ready_made(case, pairs):
        if {maker.mine(pair) for pair in pairs}.issubset(maker.module.outputs):
            return maker
    return None


def _of_cache(
    case: Case,
    maker: SideView,
    pairs: Sequence[tuple[int, int]],
    of_a: tuple[set[int], set[int]],
    of_b: tuple[set[int], set[int]],
    lines: tuple[SourceLine, ...],
    undo: Callable[[Editors], None],
) -> Finding:
    """Values that one side computes and keeps, and that the other takes in, as of a cache.

    `of_a`, `of_b`: the piece of each side, and what uses its values.
    """
    taker = case.b if maker.is_a else case.a
    made = sorted({maker.mine(pair) for pair in pairs})
    shapes = join(dict.fromkeys(short_shape(maker.module, i) for i in made))
    number = count(len(made), "value")
    cited_a, cited_b = maker.ab(tuple(made), ())
    return Finding(
        kind=EXTRA_SUBGRAPH,
        title=say(
            maker.side,
            f" computes {number} (",
            shapes,
            ") that ",
            taker.side,
            " takes in ready-made, and gives them back, as for a cache",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(f"{number} computed, used and given back in ", maker.side),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        fix=CACHE_FIX,
        short=say(
            CACHE, maker.side, f": it computes {number} that ", taker.side, " takes in ready-made"
        ),
        short_fix=CACHE_SHORT_FIX,
        proof=say("both pieces were replaced by one operation on the same inputs"),
        a=frozenset(of_a[0] | of_a[1]),
        b=frozenset(of_b[0] | of_b[1]),
        undo=undo,
    )


def _is_form(view: SideView, piece: AbstractSet[int]) -> bool:
    """Whether a piece only moves the values of inputs that this side alone has."""
    module = view.module
    return any(is_input(module, i) for i in piece) and all(
        is_input(module, i)
        or (
            module.opcodes[i] in MOVING
            and all(o in piece or view.matched.closed[o] for o in module.operands[i])
        )
        for i in piece
    )


RULE = Rule(
    name="replaced-subgraph",
    kinds=(REPLACED_SUBGRAPH,),
    find=find,
    after=("extra-subgraph",),
)
