"""Record what a training process compiles, and the evidence for why.

The package can be called: ``with xlagraph.capture(path): ...`` is
:func:`xlagraph.capture.context.capture`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own costs its import, at the start of every captured program
if TYPE_CHECKING:
    from typing import Any


class _CallablePackage(type(sys)):  # type: ignore[misc]  # types costs its import
    """A package that is also the context manager of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from xlagraph.capture.context import capture

        return capture(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
