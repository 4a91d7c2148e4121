"""Values that are padded otherwise, with the derivatives of that, which cut the padding off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged, pairs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff

    _Padding = tuple[str, str]
    """The padding of A and of B."""

_NUMBER = re.compile(r"-?[1-9]\d*")


def with_pads(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of padding, and of what cuts off as much of a derivative."""
    found = {id(cause): _paddings(diff, cause) for cause in causes if cause.proved}
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
    return {
        (str(diff.a.attributes[x].get("padding")), str(diff.b.attributes[y].get("padding")))
        for x, y in pairs
    }


def _is_cut(padding: str) -> bool:
    return "-" in padding


def _cut(padding: str) -> str:
    """The padding that cuts off what another one adds, and back."""
    return _NUMBER.sub(lambda found: str(-int(found[0])), padding)
