"""Values that are padded otherwise, with the derivatives of that, which cut the padding off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged, pairs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

    _Padding = tuple[str, str]
    """The padding of A and of B."""

_NUMBER = re.compile(r"-?[1-9]\d*")


def with_pads(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of padding, and of what cuts off as much of a derivative.

    And those of values that are padded alike at several lines, as of one index in Python.
    """
    found = {id(cause): _paddings(diff, cause) for cause in causes if cause.proved}
    main = next((cause for cause in causes if found.get(id(cause))), None)
    alike = [cause for cause in causes if main and found.get(id(cause)) == found[id(main)]]
    if main and len(alike) > 1:
        return with_pads(diff, merged(causes, main, alike))
    known = set[tuple[str, str]]().union(*found.values())
    for main in causes:
        cut = [
            cause
            for cause in causes
            if (own := found.get(id(cause)))
            and cause is not main
            and all((_cut(old), _cut(new)) in known for old, new in own)
        ]
        if cut and found.get(id(main)) and not any(_is_cut(old) for old, _ in found[id(main)]):
            return merged(causes, main, [main, *cut])
    return list(causes)


def _paddings(diff: Diff, cause: Cause) -> set[_Padding]:
    """How the values of a cause are padded, if that is all that it is of."""
    pairs = [*pairs_of(diff, cause)]
    if not pairs or any(diff.a.opcodes[x] != "pad" for x, _ in pairs):
        return set()
    return {(_along(diff.a, x), _along(diff.b, y)) for x, y in pairs}


def _along(module: Module, pad: int) -> str:
    """How a value is padded, without the axes along which it is not."""
    axes = str(module.attributes[pad].get("padding")).split("x")
    return "x".join(axis for axis in axes if axis != "0_0")


def _is_cut(padding: str) -> bool:
    return "-" in padding


def _cut(padding: str) -> str:
    """The padding that cuts off what another one adds, and back."""
    return _NUMBER.sub(lambda found: str(-int(found[0])), padding)
