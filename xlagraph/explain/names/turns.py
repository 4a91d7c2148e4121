"""Pieces that repeat what both modules compute: a loop has another number of turns.

By the lines that they stand at; or by what they compute, where all of it both compute more often.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import live_instructions
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import is_forward, line_of
from xlagraph.explain.names.merged import BRANCHES
from xlagraph.facts.values.telling import HEAVY, PLAIN, opcodes_in_words
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

_Label = tuple[str, str]
_Work = tuple[str, str, "SourceLine"]
MIN_TURNS = 2
"""What is computed once is no loop: a function may be called once more."""
MIN_HEAVY = 2
"""So many different products and the like tell a loop's turn from a single function's call."""
MANY_HEAVY = 4
"""So many products and the like are a part of a model."""
MIN_LINES = 2
"""One line alone may be a sum of so many terms."""

PLAIN_WORDS = (
    "a value is computed in another way",
    "a value is computed with",
    "a piece is computed",
)
"""What the short form of a piece begins with of which nothing more is known than a formula."""
MOST = 0.9
"""The part of a difference that a loop's turns account for, and of them what has copies."""
ALIKE, ALIKE_HEAVY = 2 / 3, 0.8
"""The part of one more turn that has copies, and of its products: a backward pass goes further."""
TURNS = "A loop has other turns: "
"""What the short form of a cause by more turns begins with."""
TURNS_FIX = say(
    "Python unrolls a loop, of which each number of turns is a graph of its own: run as many turns "
    "in every step, and let torch.where decide from which of them on nothing changes any more; or "
    "call torch_xla.sync() in each turn, so that one graph serves them all."
)
TURNS_SHORT_FIX = say("Run a fixed number of turns; select with torch.where.")

ONCE_MORE = "The model, or a part of it, runs once more in "
ONCE_MORE_FIX = say("None where that is meant (a rollout); else keep the number.")


def with_unrolled(diff: Diff, cause: Cause) -> Cause:
    """The cause as further turns of a loop, where all that it computes both compute more often.

    That is asked of operations by their shapes, without lines: the piece has no weights of its
    own, as a layer would, and of all that it computes both sides have as much again.
    """
    is_all = cause.kind in BRANCHES and cause.proved and cause.share >= MOST
    if not is_all or (cause.short and not str(cause.short).lower().startswith(PLAIN_WORDS)):
        return cause
    sides = (A, diff.a, diff.removed), (B, diff.b, diff.added)
    (side, more, alone), (_, less, fewer) = sorted(sides, key=lambda one: len(one[2]), reverse=True)
    if len(fewer) > (1 - MOST) * len(alone) or _takes_tensors(more, alone):
        return cause
    in_more, in_less = (Counter(_labels(m, _live(m))) for m in (more, less))
    again = in_more - in_less
    if _are_turns(again, in_less):
        piece = {i for i in alone if more.opcodes[i] not in PLAIN}
        done = opcodes_in_words(more, piece, less)
        told, fix = say(TURNS, done, " are repeated more often in ", side), TURNS_SHORT_FIX
    elif _is_once_more(again, in_less):
        products = {i for i in alone if more.opcodes[i] in HEAVY}
        done = opcodes_in_words(more, products, less)
        told, fix = say(ONCE_MORE, side, ", with ", done), ONCE_MORE_FIX
    else:
        return cause
    return replace(cause, kind=EXTRA_SUBGRAPH, short=told, fix=TURNS_FIX, short_fix=fix)


def _are_turns(again: Counter[_Label], in_less: Counter[_Label]) -> bool:
    """Whether it is what the other side computes in several turns, in some turns more."""
    heavy = [label for label in again if label[0] in HEAVY]
    turns = gcd(*(again[label] for label in heavy)) if len(heavy) >= MIN_HEAVY else 0
    copied = sum(n for label, n in again.items() if in_less[label] * turns >= n * MIN_TURNS)
    return turns > 0 and copied >= MOST * again.total()


def _is_once_more(again: Counter[_Label], in_less: Counter[_Label]) -> bool:
    """Whether it has copies on the other side, but for a backward pass through its first input.

    As the first turn of all has none.
    """
    copies = Counter({label: n for label, n in again.items() if n <= in_less[label]})
    heavy, all_heavy = map(_heavy, (copies, again))
    is_alike = heavy >= ALIKE_HEAVY * all_heavy and copies.total() >= ALIKE * again.total()
    return heavy >= MANY_HEAVY and is_alike


def _heavy(labels: Counter[_Label]) -> int:
    return sum(n for (opcode, _), n in labels.items() if opcode in HEAVY)


def _takes_tensors(module: Module, alone: Collection[int]) -> bool:
    """Whether inputs of the entry are among them, numbers aside."""
    own = (i for i in module.entry_computation.parameters if i in alone)
    return any(not bare_shape(module, i).endswith("[]") for i in own)


def _labels(module: Module, instructions: Iterable[int]) -> list[_Label]:
    return [
        (module.opcodes[i], bare_shape(module, i))
        for i in instructions
        if module.opcodes[i] not in PLAIN
    ]


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
