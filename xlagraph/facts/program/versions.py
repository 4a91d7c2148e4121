"""Whether two modules come from one program, or from two versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Context
from xlagraph.cause.sources import own_line
from xlagraph.facts.program.arguments import is_jitted, same_arguments

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

MIN_MOVED = 3
"""Lines of one file that have to stand elsewhere: one or two may be two calls of one function."""


def are_versions(diff: Diff, contexts: tuple[Context, Context]) -> bool | None:
    """Whether A and B come from two versions of a program; None where that cannot be known.

    What one run recorded is of one program. Of bare modules the lines tell: instructions that both
    have stand in other files, or most of them on other lines. JAX names a module by its function.
    """
    if is_captured(*contexts):
        return False
    if is_jitted(diff.a) and is_jitted(diff.b) and diff.a.name != diff.b.name:
        return True
    lines = _lines(diff)
    if {one.file for one, _ in lines}.isdisjoint(other.file for _, other in lines):
        return True if lines else None
    moved = {pair for pair in lines if pair[0] != pair[1]}
    is_moved = 2 * sum(lines[pair] for pair in moved) > sum(lines.values())
    return True if is_moved and len({one for one, _ in moved}) >= MIN_MOVED else None


def nothing_tells(diff: Diff, contexts: tuple[Context, Context]) -> bool:
    """Whether steps and versions look alike: bare modules, and no line that both have."""
    is_bare = all(context == Context() for context in contexts)
    return is_bare and are_versions(diff, contexts) is None and not _lines(diff)


def is_captured(*contexts: Context) -> bool:
    """Whether any of the modules was recorded in a run."""
    return any(context.key or context.call_site for context in contexts)


def exchanges_arguments(diff: Diff) -> bool:
    """Whether an argument that both modules have by name is another one in B."""
    names = same_arguments(diff.a, diff.b)
    if names is None:
        return False
    a, b = (known.inputs for known in names)
    return any(b.get(diff.match.to_b[p]) != name for p, name in a.items())


def _lines(diff: Diff) -> dict[tuple[SourceLine, SourceLine], int]:
    """The program's lines of instructions that both have, and how many each pair of lines has."""
    found: dict[tuple[SourceLine, SourceLine], int] = {}
    for x, y in enumerate(diff.match.to_b):
        one, other = (_line(diff.a, x), _line(diff.b, y)) if y >= 0 else (None, None)
        if one and other:
            found[one, other] = found.get((one, other), 0) + 1
    return found


def _line(module: Module, i: int) -> SourceLine | None:
    metadata = module.metadata(i)
    line = own_line(metadata.frames) if metadata and metadata.frames else None
    return None if line is None or line.is_library else line._replace(called=None)
