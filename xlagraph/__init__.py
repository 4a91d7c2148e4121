"""xlagraph names the cause when PyTorch/XLA training recompiles."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs its import, at the start of every captured program
if TYPE_CHECKING:
    from xlagraph.capture.context import capture
    from xlagraph.streams.record import record_streams
    from xlagraph.watch.guard import assert_stable

__all__ = ["assert_stable", "capture", "record_streams"]


def __getattr__(name: str) -> object:
    """Load what is public when it is asked for: importing xlagraph stays free."""
    from importlib import import_module

    if name == "capture":
        return import_module("xlagraph.capture")  # a package that can be called
    if name == "assert_stable":
        return import_module("xlagraph.watch.guard").assert_stable
    if name == "record_streams":
        return import_module("xlagraph.streams.record").record_streams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
