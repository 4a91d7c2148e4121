"""Which call of a function a difference belongs to, where other calls of it do not differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.sources import stack

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module
    from xlagraph.message import SourceLine


def line_apart(
    module: Module, piece: Collection[int], differing: Collection[int], line: SourceLine
) -> SourceLine | None:
    """The line to look at instead of this one; None if all that comes of it differs.

    A network is called for the loss and for its target: what differs of one call is not told by a
    line that both run. Told is a line of the piece's own, else the call that tells them apart.

    `piece`: what a cause tells of. `differing`: all that differs; a call of which nothing does is
    another one.
    """
    paths = {path for i in differing if (path := _path(module, i))}
    others = {path for i in range(len(module)) if (path := _path(module, i))} - paths
    mine = Counter(path for i in sorted(piece) if (path := _path(module, i)))
    plain = line.forward._replace(called=None)
    if not any(plain in path[: _shared(path, others)] for path in mine):
        return None
    own = [path[0] for path in mine if not _shared(path, others)]
    apart = (_call_apart(path, others) for path in mine)
    found = own or [call for call in apart if call]
    return Counter(found).most_common(1)[0][0] if found else None


def _path(module: Module, i: int) -> tuple[SourceLine, ...]:
    """The program's own lines that led to an instruction, innermost first."""
    return tuple(frame for frame in stack(module, i) if not frame.is_library)


def _shared(path: tuple[SourceLine, ...], others: Collection[tuple[SourceLine, ...]]) -> int:
    """With how many of its inner lines another path begins as well; 0 if with none."""
    return max((_alike(path, other) for other in others if other[0] == path[0]), default=0)


def _call_apart(
    path: tuple[SourceLine, ...], others: Collection[tuple[SourceLine, ...]]
) -> SourceLine | None:
    """The call behind what other paths share, if its function makes another such call."""
    number = _shared(path, others)
    if number >= len(path):
        return None
    function = path[number].file, path[number].function
    calls = (one[number] for one in others if len(one) > number and _alike(path, one) == number)
    return path[number] if any((c.file, c.function) == function for c in calls) else None


def _alike(one: tuple[SourceLine, ...], other: tuple[SourceLine, ...]) -> int:
    pairs = zip(one, other, strict=False)
    return next((k for k, (p, q) in enumerate(pairs) if p != q), min(len(one), len(other)))
