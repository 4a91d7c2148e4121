"""Source lines of instructions: the program's own before those of libraries."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.message import Message, Operation, SourceLine, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.graph import Module

MAX_LINES = 3
MAX_NEAR = 200
"""Instructions looked at for a line of the program near a library's."""


def where(module: Module, instructions: Iterable[int]) -> tuple[SourceLine, ...]:
    """The source lines of instructions, at most 3.

    Lines of the program itself come first, then the most frequent.
    """
    counts: Counter[SourceLine] = Counter()
    for i in instructions:
        line = _line(module, i)
        if line:
            counts[line] += 1
    ordered = sorted(counts, key=lambda line: (line.is_library, -counts[line], str(line)))
    return tuple(ordered[:MAX_LINES])


def _line(module: Module, i: int) -> SourceLine | None:
    source = module.source(i)
    return SourceLine(source.file, source.line) if source else None


def knows_lines(module: Module) -> bool:
    """Whether any instruction has a source line: torch_xla writes them under XLA_HLO_DEBUG."""
    return any("source_" in a.metadata or "stack_" in a.metadata for a in module.attributes)


def operations(module: Module, instructions: Iterable[int]) -> Message:
    """The framework's operations that instructions come from: `` (native_dropout, mul)``."""
    counts: Counter[str] = Counter()
    for i in instructions:
        metadata = module.metadata(i)
        if metadata and metadata.op_type:
            counts[metadata.op_type.removeprefix("aten__").removeprefix("xla__")] += 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_LINES]
    return say(" (", join(map(Operation, ordered)), ")") if ordered else say()


def at(lines: Sequence[SourceLine]) -> Message:
    """`` at train.py:10`` for a title, or nothing."""
    return say(" at ", lines[0]) if lines else say()


def line_near(module: Module, instructions: Iterable[int]) -> SourceLine | None:
    """The program's line that is the fewest steps away from these instructions.

    torch_xla keeps only the innermost frame of each instruction, which is often inside a
    library; the values that go in or come out know more.
    """
    front = sorted(instructions)
    seen = set(front)
    while front and len(seen) < MAX_NEAR:
        following: dict[int, None] = {}
        for i in front:
            line = _line(module, i)
            if line and not line.is_library:
                return line
            following.update(dict.fromkeys((*module.users[i], *module.operands[i])))
        front = [i for i in following if i not in seen]
        seen.update(front)
    return None
