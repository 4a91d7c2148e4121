"""Labels that a loss leaves out: those of -100, as `ignore_index` of torch's cross entropy has it.

transformers pads labels that it shifts by one with that number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import say

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff

IGNORED = "-100)"
"""How a formula ends that fills or pads with it."""


def with_labels(_: Diff, cause: Cause) -> Cause:
    """The cause of a formula that fills with that number, and what it marks."""
    if IGNORED not in str(cause.short):
        return cause
    marks = say(", where -100 marks labels that the loss leaves out (ignore_index)")
    return replace(cause, short=say(cause.short, marks))
