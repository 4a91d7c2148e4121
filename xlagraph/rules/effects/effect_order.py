"""What acts on the world, in another order: collectives, calls to the host, in- and outfeeds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.live import acting
from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message

EFFECT_ORDER = Kind(
    id="effect-order",
    title="What acts on the world comes in another order",
    section=Section.PIECES,
    meaning="Collectives with a channel, calls to the host, infeeds and outfeeds stand in another "
    "order in the module. What they take in is the same; nothing but the text says which of them "
    "comes first. XLA keeps such instructions, and may run them as they stand: results on the host "
    "come in another order, and processes that meet in collectives in another order wait for each "
    "other for ever. Iterating over a set, or over a dict that was filled in another order, is a "
    "usual reason.",
    before="""\
def step(x):
    for name in {"loss", "norm"}:  # another order in each process
        io_callback(log, None, name_of(name), stats(x)[name])
    return update(x)
""",
    after="""\
def step(x):
    for name in ("loss", "norm"):
        io_callback(log, None, name_of(name), stats(x)[name])
    return update(x)
""",
    evidence="The instructions, in the order of both sides.",
    fix="Let collectives, callbacks and logging come in the same order in every step and in every "
    "process (no iteration over a set).",
    proof="A's instructions are taken to act in B's order.",
    examples=("logs_turned",),
    consequences=("effect-order",),
    short="Collectives or callbacks come in another order",
    short_fix="Keep collectives and callbacks in one order in every step, on every rank.",
)
SHOWN = 6
"""Instructions of each side that evidence lists."""


def find(case: Case) -> list[Finding]:
    """The same instructions, of which some act before or after others than on the other side."""
    moved = case.diff.moved_effects
    if not moved:
        return []
    a, b = case.diff.a, case.diff.b
    own_a, own_b = tuple(x for x, _ in moved), tuple(y for _, y in moved)
    lines = where(b, own_b) or where(a, own_a)
    order = _order(case)
    opcodes = sorted({a.opcodes[x] for x in own_a})
    return [
        Finding(
            kind=EFFECT_ORDER,
            title=say(
                f"{count(len(moved), 'instruction')} with effects ({', '.join(opcodes)}) ",
                "comes" if len(moved) == 1 else "come",
                " in another order",
                at(lines),
            ),
            evidence=(Evidence(_both_orders(case, own_a[0]), own_a, own_b, lines),),
            proof=say("what acts in ", A, " was taken to act in ", B, "'s order"),
            undo=lambda edit: _put_in_order(edit, order),
        )
    ]


def _both_orders(case: Case, x: int) -> Message:
    """What acts in the computation of `x`, by its names in A, as it comes on both sides."""
    a, b = case.diff.a, case.diff.b
    partners = case.b.partners
    mine = acting(a, a.computation_of(x))
    theirs = [partners[y] for y in acting(b, b.computation_of(case.a.partners[x]))]
    theirs = [i for i in theirs if i in mine]
    mine = tuple(i for i in mine if i in theirs)
    return say(
        _listed(a, mine), " in ", A, "; ", _listed(a, theirs), " in ", B, " (names of ", A, ")"
    )  # fmt: skip


def _order(case: Case) -> dict[int, int]:
    """Places for what acts in A, so that pairs come as in B; the others stay where they are."""
    a, b, partners = case.diff.a, case.diff.b, case.a.partners
    places: dict[int, int] = {}
    for c, d in case.diff.match.computations.items():
        theirs = {y: k for k, y in enumerate(acting(b, b.computations[d]))}
        mine = acting(a, a.computations[c])
        paired = [x for x in mine if partners[x] in theirs]
        ordered = sorted(paired, key=lambda x: theirs[partners[x]])
        places.update(zip(ordered, paired, strict=True))
    return places


def _put_in_order(edit: Editors, order: dict[int, int]) -> None:
    known = edit.a.module.effect_order
    edit.a.module = replace(edit.a.module, effect_order={**known, **order})


def _listed(module: Module, instructions: Sequence[int]) -> Message:
    names: Iterable[HloName] = (HloName(module.names[i], module.opcodes[i]) for i in instructions)
    return join(names, SHOWN)


RULE = Rule(
    name="effect-order",
    kinds=(EFFECT_ORDER,),
    find=find,
    after=("control-dependencies",),
    before=("layout",),
)
