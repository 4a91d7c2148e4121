"""A Python number at which values are written into a tensor.

XLA takes the place as an operand, which is a constant where Python gives it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, Change, count, say
from xlagraph.rules.shapes.attributes import index_words
from xlagraph.rules.shapes.sizes import PYTHON_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

WRITES = "dynamic-update-slice"
FIRST = 2
"""The first of its operands that says where it writes."""


def find(case: Case) -> list[Finding]:
    """Constants that are nothing but places where values are written, by line and values.

    What a jitted function takes from Python is told as a number: it can be an argument.
    """
    a, b = case.diff.a, case.diff.b
    groups: dict[tuple[str, str, tuple[SourceLine, ...]], list[tuple[int, int]]] = defaultdict(list)
    for x, y in [] if is_jitted(b) else case.changed_alone("payload"):
        if b.opcodes[y] == "constant" and _is_place(b, y):
            groups[a.payloads[x], b.payloads[y], where(b, b.users[y])].append((x, y))
    return [
        _finding(case, Change(old, new, "became"), lines, pairs)
        for (old, new, lines), pairs in sorted(groups.items())
    ]


def _is_place(module: Module, i: int) -> bool:
    """Whether all that is done with a number is to write there."""
    users = module.users[i]
    return bool(users) and all(
        module.opcodes[user] == WRITES and i not in module.operands[user][:FIRST] for user in users
    )


def _widths(module: Module, place: int) -> Iterator[int]:
    """How much is written along the dimensions in which a number is the place."""
    for user in module.users[place]:
        size = read_shape(module.shapes[module.operands[user][1]]).dimensions
        places = module.operands[user][FIRST:]
        yield from (n for n, i in zip(size, places, strict=False) if i == place)


def _finding(
    case: Case, change: Change, lines: tuple[SourceLine, ...], pairs: list[tuple[int, int]]
) -> Finding:
    b = case.diff.b
    widths = frozenset(n for _, y in pairs for n in _widths(b, y))
    words = index_words(case, lines, widths, is_written=True)
    number = count(len(pairs), WRITES)

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            edit.a.payloads[x] = b.payloads[y]

    return Finding(
        kind=PYTHON_INDEX,
        title=say(
            f"the Python index where values are written is baked into {number}: ", change, at(lines)
        ),
        evidence=(
            Evidence(
                say("the place where they are written: ", change),
                tuple(x for x, _ in pairs),
                tuple(y for _, y in pairs),
                lines,
            ),
        ),
        proof=say("the index in ", A, " was set to ", change.new),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        a=frozenset(x for x, _ in pairs),
        b=frozenset(y for _, y in pairs),
        undo=undo,
    )


RULE = Rule(
    name="written-index",
    kinds=(),
    find=find,
    after=("batch-norm-momentum",),
    before=("constant-value",),
)
