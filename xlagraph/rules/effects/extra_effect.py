"""Something done for its effect, of which nobody uses the result, on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Family, Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import computed, piece_of
from xlagraph.hlo.effects import is_note
from xlagraph.message import HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module

EXTRA_EFFECT = Kind(
    id="extra-effect",
    title="One side acts on the world where the other does not",
    section=Section.PIECES,
    meaning="A callback, an outfeed, a collective or a random draw of which nobody uses the result "
    "is there in some steps only, maybe inside of a loop or a branch. XLA keeps it, with all that "
    "it needs: it is another graph. Logging from the device every few steps is a usual reason.",
    before="""\
def step(x, log):
    loss = loss_fn(x)
    if log:  # every 100 steps
        jax.debug.callback(record, loss)
    return update(loss)
""",
    after="""\
def step(x):
    loss = loss_fn(x)
    return update(loss), loss  # and record it on the host every 100 steps
""",
    evidence="What acts, what is computed for it alone, and their lines.",
    fix="Do it in every step, or give the value back and decide on the host.",
    proof="What acts is taken out.",
    examples=("log_once", "log_in_loop"),
    family=Family.BRANCH,
    is_piece=True,
    may_grow=True,
    short="Some steps run an extra collective or callback",
    short_fix="Do it in every step, or decide on the host.",
)
SHOWN = 4


def find(case: Case) -> list[Finding]:
    """Instructions with effects and without a partner, which no use that both have leads to."""
    return [
        _finding(more, less, acting)
        for more, less in reversed(case.both_ways)
        if (acting := [i for i in more.open_lone() if _acts(more.module, i)])
    ]


def _acts(module: Module, i: int) -> bool:
    """Whether XLA keeps an instruction for what it does, not for what it tells the partitioner."""
    return has_effect(module, i) and not is_note(module.attributes[i])


def _finding(more: SideView, less: SideView, acting: Sequence[int]) -> Finding:
    module, side = more.module, more.side
    piece = piece_of(more, acting)
    innermost = sorted(_innermost(module, acting))
    lines = where(module, innermost)
    names = join((HloName(module.names[i], module.opcodes[i]) for i in innermost), SHOWN)
    opcodes = ", ".join(sorted({module.opcodes[i] for i in innermost}))
    its = "its effect" if len(innermost) == 1 else "their effects"
    piece_a, piece_b = more.ab(piece, set[int]())
    cited_a, cited_b = more.ab(tuple(innermost), ())
    number = count(computed(module, piece), "instruction")

    def undo(edit: Editors) -> None:
        for i in acting:
            edit[side].become_undone(i, ())

    return Finding(
        kind=EXTRA_EFFECT,
        title=say(
            side,
            " runs ",
            names,
            f" ({opcodes}) for {its}, and ",
            less.side,
            " does not",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(names, f" with what is computed for it: {number} in all"),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        proof=say("what acts in ", side, " alone was taken out"),
        a=frozenset(piece_a),
        b=frozenset(piece_b),
        undo=undo,
    )


def _innermost(module: Module, acting: Sequence[int]) -> Iterator[int]:
    """What acts by itself, in the computations that acting instructions call."""
    effects = frozenset(module.effects)
    stack, seen = list(acting), set[int]()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        inner = [
            j
            for c in module.callees.get(i, ())
            for j in range(module.computations[c].start, module.computations[c].stop)
            if j in effects
        ]
        stack += inner
        if not inner:
            yield i


RULE = Rule(
    name="extra-effect",
    kinds=(EXTRA_EFFECT,),
    find=find,
    after=("replaced-subgraph",),
)
