"""Functions of a library that are called with a batch that has been sent to the device already."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from xlagraph.diff.header import given_away
from xlagraph.facts.shapes.size_makers import CUT, SizeMaker
from xlagraph.facts.values.telling import HEAVY
from xlagraph.message import Code, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.message import SourceLine

FRAMEWORKS = frozenset({"torch", "torch_xla", "jax"})
MAX_STEPS = 64
ON_HOST = SizeMaker(
    CUT.what,
    "A library cuts the batch there by numbers that it draws or computes in Python (a crop, "
    "CutMix, masked spans); each is part of the graph. Call it with tensors on the host, before "
    "they are sent (.to(device)), in the loader's collate function for example.",
    say("Call it on the host, before the batch is sent (", Code(".to(device)"), ")."),
)


def cut_by(view: SideView, starts: Iterable[int], lines: Sequence[SourceLine]) -> SizeMaker:
    """What to do about a length that Python gives to a slice made at these lines."""
    called = lines[0].called if lines else None
    is_library = called and called.is_installed
    if not (called and is_library) or FRAMEWORKS & set(PurePath(called.file).parts):
        return CUT
    return ON_HOST if _is_of_batch(view, starts) else CUT


def _is_of_batch(view: SideView, starts: Iterable[int]) -> bool:
    """Whether values come from inputs that are only read, with no work of a model between."""
    module = view.module
    updated = given_away(module) | set(view.context.parameters)
    seen = list(dict.fromkeys(starts))
    for i in seen:  # grows while it is read
        is_model = module.opcodes[i] == "parameter" and int(module.payloads[i]) in updated
        if is_model or module.opcodes[i] in HEAVY or len(seen) > MAX_STEPS:
            return False
        seen += [o for o in module.operands[i] if o not in seen]
    return any(module.opcodes[i] == "parameter" for i in seen)
