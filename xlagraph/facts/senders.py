"""Where a program asks for inputs that a helper of its own sends to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.sources import line_of, stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.message import SourceLine


def asked_at(view: SideView, inputs: Sequence[int]) -> SourceLine | None:
    """The line in the function that ends the step from which these inputs were sent elsewhere.

    A helper that sends whatever it is given (``{k: v.to(device) for ...}``) tells nothing of one
    input where it sends others at the same line. None where it sends no others, or where the step
    does not call it.
    """
    module, site = view.module, view.context.call_site
    lines = {line_of(module, i) for i in inputs}
    line = lines.pop() if len(lines) == 1 else None
    if site is None or line is None or line.is_library:
        return None
    entry = module.entry_computation.parameters
    if not any(line_of(module, p) == line for p in entry if p not in inputs):
        return None
    own = (
        f for f in stack(module, inputs[0]) if (f.file, f.function) == (site.file, site.function)
    )
    found = next(own, None)
    return found if found and found.line != line.line else None
