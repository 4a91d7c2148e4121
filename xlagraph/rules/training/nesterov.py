"""Nesterov's momentum on one side: steps take the gradient with the new momentum, scaled once more.

What differs is short and its numbers pair with other ones: so it is asked for by its formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.optimizers import looks_ahead
from xlagraph.message import count, join, say
from xlagraph.rules.training.optimizer_option import NESTEROV_SHORT, OPTIMIZER_OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module


def find(case: Case) -> list[Finding]:
    """Steps that look ahead in one module, where none does in the other."""
    ahead = {view.side: _ahead(view.module) for view in (case.a, case.b)}
    return [
        _finding(more, less, ahead[more.side])
        for less, more in case.both_ways
        if ahead[more.side] and not ahead[less.side]
    ]


def _ahead(module: Module) -> dict[int, int]:
    """What is ``g + m * t``, with the momentum m that the module keeps."""
    found: dict[int, int] = {}
    kept = set(module.outputs)
    for momentum in sorted(i for i in kept if _is_momentum(module, i)):
        products = (u for u in module.users[momentum] if module.opcodes[u] == "multiply")
        values = (v for product in products for v in module.users[product])
        found |= {v: momentum for v in values if looks_ahead(module, v, momentum)}
    return {v: momentum for v, momentum in found.items() if v not in kept and module.users[v]}


def _is_momentum(module: Module, value: int) -> bool:
    """Whether a value adds something to an input that is scaled."""
    if module.opcodes[value] != "add" or module.shapes[value].partition("{")[0].endswith("[]"):
        return False
    scaled = (o for o in module.operands[value] if module.opcodes[o] == "multiply")
    return any(is_input(module, i) for o in scaled for i in module.operands[o])


def _finding(more: SideView, less: SideView, ahead: Mapping[int, int]) -> Finding:
    module, side = more.module, more.side
    below = {o for v in ahead for o in module.operands[v]}
    own = {*ahead, *(i for i in below if set(module.users[i]) <= set(ahead))}
    lines = where(module, sorted(ahead))
    shapes = join(short_shape(module, v) for v in sorted(ahead))
    number = count(len(ahead), "tensor")
    claimed_a, claimed_b = more.ab(frozenset(own), frozenset[int]())
    cited_a, cited_b = more.ab(tuple(sorted(ahead)), ())

    def undo(edit: Editors) -> None:
        edit[side].replace_uses(ahead)
        for i in own:  # what is left of it pairs with nothing
            edit[side].become_undone(i, ())

    return Finding(
        kind=OPTIMIZER_OPTION,
        title=say(
            "the optimizer looks ahead in ", side, " and not in ", less.side,
            f", for {number} (", shapes, ")", at(lines),
        ),
        evidence=(
            Evidence(
                say("steps take g + m * t in ", side, ", and the momentum m itself in ", less.side),
                cited_a,
                cited_b,
                lines,
            ),
        ),
        short=NESTEROV_SHORT,
        proof=say("steps of ", side, " were given the momentum itself"),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
    )  # fmt: skip


RULE = Rule(
    name="nesterov",
    kinds=(),
    find=find,
    after=("averages",),
    before=("optimizer-state",),
    rematches=True,
)
