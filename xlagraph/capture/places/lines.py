"""Source lines in graphs, which torch_xla writes if it keeps the stack of each operation.

``XLA_IR_DEBUG=1`` or ``XLA_HLO_DEBUG=1``, set before torch_xla is imported, have it do so and give
every graph another cache key, for their values are part of it (torch_xla 2.9; the lines are not:
tests/capture/test_lines.py). Capture sets the switch behind them instead, which no key contains, so
that graphs are those of a program without capture. Whoever has set one of the variables, to
whatever value, has decided.
"""

# ruff: noqa: SLF001 - what capture uses of torch_xla has private names

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLES = ("XLA_IR_DEBUG", "XLA_HLO_DEBUG")


def is_decided(env: Mapping[str, str] = os.environ) -> bool:
    """Whether the user has said whether there are to be lines."""
    return any(env.get(name) for name in VARIABLES)


def are_on() -> bool:
    """Whether what is traced now has lines."""
    return bool(sys.modules["_XLAC"]._get_ir_debug())


class Lines:
    """Switches lines on while a capture wants them, unless the user has decided."""

    def __init__(self) -> None:
        self._is_decided = is_decided()
        self._is_ours = False

    def switch(self, *, on: bool) -> None:
        """Have them, or leave it to the program again."""
        ours = on and not self._is_decided
        if ours != self._is_ours and not (ours and are_on()):
            sys.modules["_XLAC"]._set_ir_debug(ours)
            self._is_ours = ours
