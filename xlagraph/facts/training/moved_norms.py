"""Normalisations that stand before a residual block on one side and behind its sum on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.sources import is_forward, line_of
from xlagraph.facts.training.gradients import through_forms, uses_of
from xlagraph.message import A, B, count, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

NORM = "batch-norm-training"
"""What torch_xla lowers a layer norm to: one normalisation of the batch's rows."""


GIVEN = frozenset({"broadcast", "constant", "parameter"})


class MovedNorms(NamedTuple):
    """How many normalisations changed place, and the line of the sums in B, if it is one."""

    what: Message
    line: SourceLine | None


class _Placed(NamedTuple):
    """The residual sums beside the normalisations of a module."""

    before: list[int]
    """Sums that take what is normalised as it is, past the block."""
    behind: list[int]
    """Sums that are normalised, and that no other sum takes."""


def moved_norms(diff: Diff) -> MovedNorms | None:
    """Normalisations that changed place; None if their numbers do not tell that alone."""
    a, b = _placed(diff.a), _placed(diff.b)
    moved = len(a.before) - len(b.before)
    if not moved or moved != len(b.behind) - len(a.behind):
        return None
    one, other = (A, B) if moved > 0 else (B, A)
    own, known = (b.behind, a.behind) if moved > 0 else (b.before, a.before)
    old = {line.line for i in known if (line := line_of(diff.a, i))}
    lines = {line for i in own if (line := line_of(diff.b, i)) and is_forward(line)}
    new = [line for line in lines if line.line not in old]
    number = count(abs(moved), "normalisation")
    stand = "stands" if abs(moved) == 1 else "stand"
    what = say(
        f"{number} {stand} before a block in ", one, " and behind the block's sum in ", other
    )
    return MovedNorms(what, new[0] if len(new) == 1 else None)


def _placed(module: Module) -> _Placed:
    found = _Placed([], [])
    entry = module.entry_computation
    for i in range(entry.start, entry.stop):
        if module.opcodes[i] == NORM:
            value = through_forms(module, module.operands[i][0])
            past = [user for user in uses_of(module, value) if _is_sum(module, user)]
            found.before.extend(past[:1])
            if not past and _is_sum(module, value):
                found.behind.append(value)
    return found


def _is_sum(module: Module, i: int) -> bool:
    """Whether an instruction adds two computed values of one shape: no bias, no number."""
    if module.opcodes[i] != "add":
        return False
    return all(
        module.opcodes[o] not in GIVEN and bare_shape(module, o) == bare_shape(module, i)
        for o in module.operands[i]
    )
