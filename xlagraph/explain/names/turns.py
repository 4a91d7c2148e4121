"""Pieces that repeat what both modules compute: a loop has another number of turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import live_instructions
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import is_forward, line_of
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

_Work = tuple[str, str, "SourceLine"]
MIN_TURNS = 2
"""What is computed once is no loop: a function may be called once more."""
MIN_LINES = 2
"""One line alone may be a sum of so many terms."""


def with_turns(diff: Diff, cause: Cause) -> Cause:
    """The cause as further turns of a loop, where all that it computes both compute in turns.

    Every operation of the forward pass at each of its lines, so many times on one side and so many
    on the other, in one ratio.
    """
    if cause.kind is not EXTRA_SUBGRAPH or not cause.proved:
        return cause
    alone = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    if bool(alone[0]) == bool(alone[1]):
        return cause
    module, own = (diff.a, alone[0]) if alone[0] else (diff.b, alone[1])
    works = _works(module, own).keys()
    in_a, in_b = (_works(one, _live(one)) for one in (diff.a, diff.b))
    if len({line for *_, line in works}) < MIN_LINES:
        return cause
    least = min(works, key=lambda work: in_a[work] + in_b[work])
    a, b = in_a[least], in_b[least]
    is_even = all(in_a[work] * b == in_b[work] * a for work in works)
    if min(a, b) < MIN_TURNS or not is_even:
        return cause
    told = (f"{a} times in ", A, f" and {b} times in ", B, ", as by a loop of so many turns")
    return replace(cause, short=say("a piece is repeated ", *told))


def _live(module: Module) -> list[int]:
    return [i for i, is_live in enumerate(live_instructions(module)) if is_live]


def _works(module: Module, instructions: Iterable[int]) -> Counter[_Work]:
    """How often each operation stands at each line of the forward pass."""
    lines = {i: line_of(module, i) for i in instructions if module.opcodes[i] not in IDLE}
    return Counter(
        (module.opcodes[i], bare_shape(module, i), line)
        for i, line in lines.items()
        if line is not None and is_forward(line) and module.operands[i]
    )
