"""Sizes of inputs that are padded, batch by batch, to the next multiple of a number."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from xlagraph.message import EMPTY, say

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.message import Message

MIN_MULTIPLE = 8
"""Sizes have smaller numbers in common by chance."""
DECODE_FIX = say("None if both are meant, as prefill and decode are; else pad to one length.")


def padded_fix(dimensions: Collection[tuple[int, int, int]]) -> Message:
    """What to do about sizes that changed, as axis, old and new; empty where they are not padded.

    A length of 1 is that of a token that is decoded behind a prompt. Else both are multiples of one
    number, and neither is one of the other: a smaller batch, the half or a quarter of the full one,
    is no padding.
    """
    changes = {(old, new) for _, old, new in dimensions}
    if len(changes) != 1:
        return EMPTY
    ((old, new),) = changes
    if 1 in (old, new) and all(axis for axis, _, _ in dimensions):
        return DECODE_FIX
    multiple = gcd(old, new)
    if multiple < MIN_MULTIPLE or multiple in (old, new):
        return EMPTY
    return say(f"Use few, coarse buckets (these are multiples of {multiple}), or one size.")
