"""Source lines of instructions: the program's own before those of libraries."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.graph import Module
    from xlagraph.run.records import Frame

MAX_LINES = 3
MAX_NEAR = 200
"""Instructions looked at for a line of the program near a library's."""
_LIBRARY_PARTS = frozenset({"site-packages", "dist-packages", "torch", "torch_xla"})


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package rather than to the program."""
    return not _LIBRARY_PARTS.isdisjoint(PurePath(file).parts[:-1])


def where(module: Module, instructions: Iterable[int]) -> tuple[str, ...]:
    """The source lines of instructions as ``file:line``, at most 3.

    Lines of the program itself come first, then the most frequent.
    """
    counts: Counter[str] = Counter()
    libraries: set[str] = set()
    for i in instructions:
        source = module.source(i)
        if source:
            line = f"{source.file}:{source.line}"
            counts[line] += 1
            if is_library(source.file):
                libraries.add(line)
    ordered = sorted(counts, key=lambda line: (line in libraries, -counts[line], line))
    return tuple(ordered[:MAX_LINES])


def knows_lines(module: Module) -> bool:
    """Whether any instruction has a source line: torch_xla writes them under XLA_HLO_DEBUG."""
    return any("source_" in a.metadata or "stack_" in a.metadata for a in module.attributes)


def operations(module: Module, instructions: Iterable[int]) -> str:
    """The framework's operations that instructions come from: `` (native_dropout, mul)``."""
    counts: Counter[str] = Counter()
    for i in instructions:
        metadata = module.metadata(i)
        if metadata and metadata.op_type:
            counts[metadata.op_type.removeprefix("aten__").removeprefix("xla__")] += 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_LINES]
    return f" ({', '.join(ordered)})" if ordered else ""


def at(lines: Sequence[str]) -> str:
    """`` at train.py:10`` for a title, or nothing; a library's line is called one."""
    return f" at {short_line(lines[0])}" if lines else ""


def short_line(line: str) -> str:
    """A source line ``file:line`` with its path cut to the telling end."""
    path, colon, number = line.rpartition(":")
    if not colon:
        return line
    parts = PurePath(path).parts
    for packages in ("site-packages", "dist-packages"):
        if packages in parts:
            parts = parts[parts.index(packages) + 1 :]
            return f"{'/'.join(parts)}:{number} (a library)"
    return f"{'/'.join(parts[-2:]) if len(parts) > 2 else path}:{number}"


def line_near(module: Module, instructions: Iterable[int]) -> str:
    """The program's line that is the fewest steps away from these instructions, or ``""``.

    torch_xla keeps only the innermost frame of each instruction, which is often inside a
    library; the values that go in or come out know more.
    """
    front = sorted(instructions)
    seen = set(front)
    while front and len(seen) < MAX_NEAR:
        following: dict[int, None] = {}
        for i in front:
            source = module.source(i)
            if source and not is_library(source.file):
                return f"{source.file}:{source.line}"
            following.update(dict.fromkeys((*module.users[i], *module.operands[i])))
        front = [i for i in following if i not in seen]
        seen.update(front)
    return ""


def own_frame(frames: Sequence[Frame]) -> str:
    """The innermost frame of the program itself, else the innermost, as ``file:line``."""
    if not frames:
        return ""
    own = next((frame for frame in frames if not is_library(frame.file)), frames[0])
    return f"{own.file}:{own.line}"
