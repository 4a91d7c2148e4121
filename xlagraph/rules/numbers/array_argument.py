"""Arrays that are an argument on one side and a constant of the graph on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges
from xlagraph.facts.training.updates import updates
from xlagraph.message import count, say
from xlagraph.rules.numbers.scalar_argument import STATIC_ARGUMENT

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.graph import Module

MOVES = frozenset({"reshape", "broadcast", "transpose", "convert", "copy", "bitcast"})
"""What Python may have done to the array before it was baked in."""
WORDS = Words(
    say(
        "Pass the array in every step as an argument that is traced, or as a tensor on the device: "
        "a numpy or jax array that a jitted function closes over is a constant of its graph, and "
        "another array there is another graph."
    ),
    say("An array is baked into one graph only"),
    say("Pass the array as an argument in every step."),
)


class _Use(NamedTuple):
    """One place where one side has the array, moved, and the other a constant."""

    taken: int
    """The value made of the argument."""
    literal: int
    """The value made of the constant."""
    edge: Edge


def find(case: Case) -> list[Finding]:
    """One finding for each array that one side takes in and the other has as a constant.

    Of a tensor that is updated, or kept, under a name or not, the constant may be the first value.
    """
    found = []
    for taker, baked in case.both_ways:
        uses: dict[int, list[_Use]] = {}
        for edge in open_edges(case):
            use = _Use(edge.value(taker), edge.value(baked), edge)
            argument = _argument(taker, baked, use)
            if argument is not None:
                uses.setdefault(argument, []).append(use)
        state = updates(taker.module) if uses else {}
        found += [
            _finding(taker, baked, argument, group)
            for argument, group in sorted(uses.items())
            if argument not in state
            and not taker.input_tensor(argument)
            and not (baked.is_a and _is_kept(baked.module, group))
        ]
    return found


def _is_kept(module: Module, uses: list[_Use]) -> bool:
    """Whether the constant is given out too, as a tensor that lives on is where it is made."""
    made = {i for use in uses for i in _way(module, use.literal)}
    return not made.isdisjoint(module.outputs)


def _argument(taker: SideView, baked: SideView, use: _Use) -> int | None:
    """The argument that one side uses where the other has a constant of that many numbers."""
    argument, constant = _way(taker.module, use.taken)[-1], _way(baked.module, use.literal)[-1]
    is_one = (
        is_input(taker.module, argument)
        and argument in taker.module.entry_computation.parameters
        and taker.partners[argument] < 0
        and baked.module.opcodes[constant] == "constant"
        and baked.partners[constant] < 0
        and _sizes(taker.module, argument) == _sizes(baked.module, constant) != []
        and bare_shape(taker.module, use.taken) == bare_shape(baked.module, use.literal)
    )
    return argument if is_one else None


def _way(module: Module, value: int) -> list[int]:
    """A value, and what it is moved from, up to what it is but for its form."""
    way = [value]
    while module.opcodes[way[-1]] in MOVES:
        way += module.operands[way[-1]]
    return way


def _sizes(module: Module, i: int) -> list[str]:
    """The dimensions of an array, those of one number left out, in no order."""
    sizes = bare_shape(module, i).partition("[")[2].rstrip("]").split(",")
    return sorted(size for size in sizes if size not in ("", "1"))


def _finding(taker: SideView, baked: SideView, argument: int, uses: list[_Use]) -> Finding:
    taken = set[int]().union(*(_way(taker.module, use.taken) for use in uses))
    made = set[int]().union(*(_way(baked.module, use.literal) for use in uses))
    literals = {i for i in made if baked.module.opcodes[i] == "constant"}
    users = {use.edge.user(baked) for use in uses if use.edge.place != OUTPUT}
    lines = where(baked.module, made) or where(baked.module, users) or where(taker.module, taken)
    name = parameter_name(taker, argument)
    constant = f"constant of the graph ({short_shape(baked.module, min(literals))})"
    became = (
        say(name, f" became a {constant}") if taker.is_a else say(f"a {constant} became ", name)
    )
    own_a, own_b = taker.ab(
        taken | {use.edge.user(taker) for use in uses if use.edge.place != OUTPUT}, made | users
    )

    def undo(edit: Editors) -> None:
        for use in uses:
            mark = f"{argument} {taker.matched.expressions[use.taken]}"
            edit[taker.side].become_undone(use.taken, (), mark)
            edit[baked.side].become_undone(use.literal, (), mark)

    return Finding(
        kind=STATIC_ARGUMENT,
        title=say(
            "an array is an argument on one side and baked in on the other: ", became, at(lines)
        ),
        evidence=(
            Evidence(
                say(
                    became,
                    f", used at {count(len(uses), 'place')}; which numbers the argument has is "
                    "not known",
                ),
                tuple(sorted(own_a))[:50],
                tuple(sorted(own_b))[:50],
                lines,
            ),
        ),
        fix=WORDS.fix,
        short=WORDS.short,
        short_fix=WORDS.short_fix,
        proof=say("the constant and the argument were replaced by one operation"),
        a=frozenset(own_a),
        b=frozenset(own_b),
        undo=undo,
    )


RULE = Rule(
    name="array-argument",
    kinds=(),
    find=find,
    after=("layout",),
    before=("initial-state",),
)
