"""A Python number at which a value is written into a tensor, or a part is taken from one.

XLA takes the place of a dynamic slice as an operand, which is a constant where Python gives it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.message import A, Change, count, say
from xlagraph.rules.shapes.attributes import index_words
from xlagraph.rules.shapes.sizes import PYTHON_INDEX

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

STARTS = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""The first operand of each that says where it begins."""
_Group = tuple[str, str, str, "tuple[SourceLine, ...]"]
"""The number in A and in B, the opcode, and the lines."""


def find(case: Case) -> list[Finding]:
    """Constants that are nothing but places of dynamic slices, grouped by line and values.

    What a jitted function takes from Python is told as a number: it can be an argument.
    """
    a, b = case.diff.a, case.diff.b
    groups: dict[_Group, list[tuple[int, int]]] = defaultdict(list)
    for x, y in [] if is_jitted(b) else case.changed_alone("payload"):
        opcode = _placed_by(b, y)
        if opcode:
            groups[a.payloads[x], b.payloads[y], opcode, where(b, b.users[y])].append((x, y))
    return [
        _finding(case, Change(old, new, "became"), opcode, lines, pairs)
        for (old, new, opcode, lines), pairs in sorted(groups.items())
    ]


def _placed_by(module: Module, i: int) -> str:
    """The one opcode that takes a constant for the place where it begins, and does nothing else."""
    if module.opcodes[i] != "constant":
        return ""
    opcodes = {module.opcodes[user] for user in module.users[i]}
    opcode = next(iter(opcodes)) if len(opcodes) == 1 else ""
    first = STARTS.get(opcode)
    if first is None or any(i in module.operands[user][:first] for user in module.users[i]):
        return ""
    return opcode


def _finding(
    case: Case,
    change: Change,
    opcode: str,
    lines: tuple[SourceLine, ...],
    pairs: list[tuple[int, int]],
) -> Finding:
    b = case.diff.b
    is_written = opcode == "dynamic-update-slice"
    what = "the Python index where values are written" if is_written else "a Python index"
    words = index_words(case, lines, is_written=is_written)

    def undo(edit: Editors) -> None:
        for x, y in pairs:
            edit.a.payloads[x] = b.payloads[y]

    return Finding(
        kind=PYTHON_INDEX,
        title=say(f"{what} is baked into {count(len(pairs), opcode)}: ", change, at(lines)),
        evidence=(
            Evidence(
                say(f"constant that {opcode} begins at: ", change),
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
    name="start-index",
    kinds=(),
    find=find,
    after=("other-operation",),
    before=("constant-value",),
)
