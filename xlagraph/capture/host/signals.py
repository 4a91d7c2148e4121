"""Ask a running program for a close look, by a signal. Never installed unless asked for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from xlagraph.capture.host.say import say


def on_signal(number: signal.Signals, ask: Callable[[], None]) -> None:
    """Call ``ask``, and then the handler that was there, when signal ``number`` arrives.

    Only the main thread can do so. A handler set by C code cannot be called from Python, and is
    left alone; both are said in one line.
    """
    earlier = signal.getsignal(number)
    if earlier is None or threading.current_thread() is not threading.main_thread():
        why = "a library handles it" if earlier is None else "torch_xla is imported by a thread"
        say(f"{number.name} asks for nothing: {why}")
        return

    def handler(received: int, frame: FrameType | None) -> None:
        ask()
        if callable(earlier):
            earlier(received, frame)

    signal.signal(number, handler)
    signal.siginterrupt(number, False)  # noqa: FBT003 - C code need not expect interrupted calls
