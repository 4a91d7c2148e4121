"""Where a program asks for inputs that a helper of its own sends to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.sources import line_of, stack
from xlagraph.facts.shapes.size_makers import is_masked_in_line, maker_in_line
from xlagraph.message import EMPTY, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

LAYERS = "torch/nn/"
"""Where torch's layers are, and what they call."""


def asked_at(view: SideView, inputs: Sequence[int]) -> SourceLine | None:
    """The line in the function that ends the step from which these inputs were sent elsewhere.

    A helper that sends whatever it is given (``{k: v.to(device) for ...}``) tells nothing of one
    input where it sends others at the same line. None where it sends no others, where the step
    does not call it, or where values decide at that line how large the input is
    (``mask.nonzero()``, ``edges[:, kept]``), as in the turns of a loop.
    """
    module = view.module
    lines = {line_of(module, i) for i in inputs}
    line = lines.pop() if len(lines) == 1 else None
    if line is None or line.is_library:
        return None
    if maker_in_line(view, inputs[0]) or is_masked_in_line(view, inputs[0]):
        return None
    entry = module.entry_computation.parameters
    if not any(line_of(module, p) == line for p in entry if p not in inputs):
        return None
    found = _in_step(view, inputs[0])
    return found if found and found.line != line.line else None


def called_by_step(view: SideView, i: int, lines: Sequence[SourceLine]) -> Message:
    """Where the function that ends the step calls another one, at whose line an input is sent."""
    caller = _in_step(view, i) if is_input(view.module, i) else None
    is_helper = caller and lines and not lines[0].is_library
    if not caller or not is_helper or lines[0].function == caller.function:
        return EMPTY
    return say(", called at ", caller)


def sent_first(module: Module, inputs: Sequence[int]) -> Sequence[int]:
    """Of inputs those that no layer made, as some make indices for what they are given; or all."""
    lines = [(i, line_of(module, i)) for i in inputs]
    sent = [i for i, line in lines if line and not (line.called and LAYERS in line.called.file)]
    return sent or inputs


def _in_step(view: SideView, i: int) -> SourceLine | None:
    """The line of the function that ends the step which led to an instruction."""
    site = view.context.call_site
    frames = stack(view.module, i) if site else ()
    own = (f for f in frames if site and (f.file, f.function) == (site.file, site.function))
    return next(own, None)
