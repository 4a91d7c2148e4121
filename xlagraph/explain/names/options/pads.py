"""Values that are padded otherwise, with the derivatives of that, which cut the padding off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged, pairs_of
from xlagraph.facts.values.telling import MOVING
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

    _Padding = tuple[str, str]
    """The padding of A and of B."""

MOVED = MOVING | {"add", "multiply"}
OWN_FIX = say(
    "A convolution's own padding is of zeros (padding=1). What another mode pads with, values from "
    "the other edge (padding_mode='circular') or mirrored ones, is computed before it: give it one "
    "mode in both."
)
OWN_SHORT_FIX = say("Give the convolution one padding mode in both.")
_NUMBER = re.compile(r"-?[1-9]\d*")


def with_pads(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of padding, and of what cuts off as much of a derivative.

    And those of values that are padded alike at several lines, as of one index in Python; or before
    a convolution on one side, and by it on the other.
    """
    causes = _with_padded_before(diff, causes)
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


def _with_padded_before(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one padding of a convolution's own, and a piece that pads what it takes in.

    With zeros by the convolution; otherwise, as around the edges of a torus, by a piece before it.
    """
    windows = [c for c in causes if c.kind is ATTRIBUTE and c.proved and _windows(diff, c)]
    (pads_a, pads_b), *_ = [pads for c in windows for pads in _windows(diff, c)] or [(True, True)]
    if pads_a == pads_b:
        return list(causes)
    side, module = (B, diff.b) if pads_a else (A, diff.a)
    taken = {module.operands[i][0] for c in windows for i in (c.b if pads_a else c.a)}
    for piece in causes:
        alone = piece.b.intersection(diff.added) if pads_a else piece.a.intersection(diff.removed)
        if piece.kind is EXTRA_SUBGRAPH and piece.proved and alone & taken:
            short = say("a convolution pads with zeros by itself in ", side.other, "; ", side)
            short = say(short, " pads its input before it (padding_mode)")
            words = {"short": short, "title": short, "fix": OWN_FIX, "short_fix": OWN_SHORT_FIX}
            others = [c for c in causes if c is not piece and _moves(diff, c, side)]
            main = min((piece, *others), key=causes.index)
            place = piece.place
            return merged(causes, main, [piece, *others, *windows], place=place, **words)
    return list(causes)


def _moves(diff: Diff, cause: Cause, side: Side) -> bool:
    """Whether one side alone moves values and adds them up, as derivatives of padding do."""
    alone = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    own, theirs = alone if side is A else alone[::-1]
    module = diff.a if side is A else diff.b
    is_piece = cause.kind is EXTRA_SUBGRAPH and cause.proved and bool(own) and not theirs
    return is_piece and all(module.opcodes[i] in MOVED for i in own)


def _windows(diff: Diff, cause: Cause) -> list[tuple[bool, bool]]:
    """Of each pair of convolutions with other windows whether A's pads, and whether B's does."""
    return [
        (_pads(diff.a, x), _pads(diff.b, y))
        for x, y in pairs_of(diff, cause)
        if diff.a.opcodes[x] == diff.b.opcodes[y] == "convolution"
    ]


def _pads(module: Module, convolution: int) -> bool:
    return "pad=" in str(module.attributes[convolution].get("window"))


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
