"""What tells an optimizer's tensors and numbers from others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.cause.sources import OPERATORS, line_of, stack
from xlagraph.facts.values.scalars import without_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Module
    from xlagraph.message import SourceLine
    from xlagraph.tensors import Tensor

_FILE = re.compile(r"(^|/)optim/")


def is_optimizer_line(line: SourceLine) -> bool:
    """Whether a line belongs to an optimizer's own code, or led there."""
    return any(_FILE.search(one.file) for one in (line, line.called) if one)


def is_optimizer_state(tensors: Iterable[Tensor | None], lines: Iterable[SourceLine]) -> bool:
    """Whether tensors that are known, else source lines, tell of an optimizer.

    True where nothing is known at all.
    """
    known = [tensor for tensor in tensors if tensor]
    if known:
        return all(tensor.is_optimizer_state for tensor in known)
    return all(map(is_optimizer_line, lines))


def is_bare_operator(module: Module, i: int) -> bool:
    """Whether all that is known of an instruction's line is an operator that torch has in Python.

    ``1 / x`` is such a one, and the text of torch_xla has the innermost frame alone: whose
    operator it is can only be told from what stands around.
    """
    frames = stack(module, i)
    return len(frames) == 1 and frames[0].file.endswith(OPERATORS)


def runs_in_optimizer(module: Module, i: int) -> bool:
    """Whether an instruction has no line, or one that an optimizer led to, however far within."""
    line = line_of(module, i)
    frames = () if line is None else (line, *stack(module, i))
    return line is None or any(is_optimizer_line(frame) for frame in frames)


def looks_ahead(module: Module, value: int, momentum: int) -> bool:
    """Whether a value is ``g + m * s``, and g the gradient that the new momentum m is made of."""
    if module.opcodes[value] != "add" or module.opcodes[momentum] != "add":
        return False
    gradients = {without_one(module, o) for o in module.operands[momentum]}
    products = [o for o in module.operands[value] if without_one(module, o) not in gradients]
    return (
        len(products) == 1
        and module.opcodes[products[0]] == "multiply"
        and momentum in module.operands[products[0]]
    )
