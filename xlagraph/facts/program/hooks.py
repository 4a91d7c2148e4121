"""Hooks that a program has attached: what PyTorch calls beside what the program calls itself."""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

from xlagraph.message import SourceLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import SourceFrame

_CALLED = {
    ("module.py", "_call_impl"): "forward",
    ("module.py", "inner"): "forward",
    ("optimizer.py", "wrapper"): "step",
    ("hooks.py", "hook"): "",
}
"""File and function in PyTorch that call hooks, and what else they call."""
_FOLDERS = ("torch/nn/modules", "torch/optim", "torch/utils")


def hook_line(frames: Sequence[SourceFrame]) -> SourceLine | None:
    """The line of the program in the hook that a stack runs in, innermost first; None if in none.

    A hook on a tensor's gradient runs in a thread of the backward pass: nothing calls it.
    """
    for frame, caller in zip_longest(frames, frames[1:]):
        if frame.function in ("", "<module>"):
            continue
        line = SourceLine(frame.file, frame.line, frame.function)
        called = _called_by(caller)
        is_hook = caller is None or (called is not None and frame.function != called)
        if is_hook and not line.is_library:
            return line
    return None


def is_forward(frames: Sequence[SourceFrame]) -> bool:
    """Whether a stack runs in the forward pass of a module."""
    return any(
        frame.function == "forward" and _called_by(caller) == "forward"
        for frame, caller in pairwise(frames)
    )


def _called_by(caller: SourceFrame | None) -> str | None:
    """What a function calls besides hooks; None for one that calls no hooks."""
    if caller is None:
        return None
    folder, _, name = caller.file.replace("\\", "/").rpartition("/")
    is_torch = folder.endswith(_FOLDERS)
    return _CALLED.get((name, caller.function.rpartition(".")[2])) if is_torch else None
