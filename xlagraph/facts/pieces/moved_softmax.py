"""A softmax that stands before the top-k on one side and behind it on the other: routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.sources import is_forward, line_of
from xlagraph.facts.values.evaluated import FORMS
from xlagraph.facts.values.scalars import through
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

THROUGH = FORMS | {"convert"}
TAKEN = THROUGH | {"get-tuple-element", "slice"}
"""What leads from a sort to the values that it has chosen."""


class MovedSoftmax(NamedTuple):
    """What changed place, and its line in B, if it is one."""

    what: Message
    line: SourceLine | None


class _Placed(NamedTuple):
    """The softmaxes beside a module's top-k."""

    before: list[int]
    behind: list[int]


def moved_softmax(diff: Diff) -> MovedSoftmax | None:
    """Softmaxes that changed place; None if their numbers do not tell that alone."""
    a, b = _placed(diff.a), _placed(diff.b)
    moved = len(a.before) - len(b.before)
    if not moved or moved != len(b.behind) - len(a.behind):
        return None
    one, other = (A, B) if moved > 0 else (B, A)
    own = b.behind if moved > 0 else b.before
    lines = {line for i in own if (line := line_of(diff.b, i)) and is_forward(line)}
    what = say("softmax comes before the top-k in ", one, " and behind it in ", other)
    return MovedSoftmax(what, lines.pop() if len(lines) == 1 else None)


def _placed(module: Module) -> _Placed:
    found = _Placed([], [])
    entry = module.entry_computation
    for i in range(entry.start, entry.stop):
        taken = of_softmax(module, i)
        if taken is not None and _is_chosen(module, through(module, taken, TAKEN)):
            found.behind.append(i)
        if _is_chosen(module, i):
            value = through(module, module.operands[i][0], THROUGH)
            if of_softmax(module, value) is not None:
                found.before.append(value)
    return found


def _is_chosen(module: Module, i: int) -> bool:
    """Whether an instruction sorts values of which the first ones are taken."""
    if module.opcodes[i] == "custom-call":
        return "topk" in (module.attributes[i].get("custom_call_target") or "").lower()
    values = [u for u in module.users[i] if module.opcodes[u] == "get-tuple-element"]
    is_sort = module.opcodes[i] == "sort" and bool(values)
    return is_sort and any(module.opcodes[u] == "slice" for v in values for u in module.users[v])


def of_softmax(module: Module, i: int) -> int | None:
    """What a softmax is taken of: ``exp(x - max) / sum(exp(x - max))``; None of anything else."""
    if module.opcodes[i] != "divide":
        return None
    above, below = (through(module, o, THROUGH) for o in module.operands[i])
    is_sum = module.opcodes[below] == "reduce" and module.opcodes[above] == "exponential"
    if not is_sum or through(module, module.operands[below][0], THROUGH) != above:
        return None
    inner = through(module, module.operands[above][0], THROUGH)
    return module.operands[inner][0] if module.opcodes[inner] == "subtract" else inner
