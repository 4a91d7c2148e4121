"""torch.compile before torch 2.11: compiled functions must not notice the mode.

Their guards compare the thread's dispatch keys, which a mode changes: they would compile again
at every call, and give up after some. So the mode is taken off while torch.compile evaluates
frames; it is on again in the code that it compiled. What a function runs eagerly between two
compiled parts is not seen then.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.imports import when_imported
from xlagraph.streams.record.mode import push, recording_mode, remove
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder

FIRST_WITHOUT_NEED = (2, 11)
"""The first torch whose guards are indifferent to modes."""

_DYNAMO = "torch._dynamo.eval_frame"


class _Removed(threading.local):
    mode: Any = None


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Follows where torch.compile's evaluation of frames is switched on and off."""
    version = sys.modules["torch"].__version__
    if tuple(int(part) for part in version.split(".")[:2]) >= FIRST_WITHOUT_NEED:
        return
    when_imported(_DYNAMO, lambda: _wrap(patches, guard, recorder))


def _wrap(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    if not recorder.active:
        return
    removed = _Removed()

    def off() -> None:
        mode = recording_mode()
        if mode is not None:
            recorder.unseen[Unseen.BETWEEN_COMPILED] = -1
            remove(mode)
            removed.mode = mode

    def on() -> None:
        if removed.mode is not None:
            push(removed.mode)
            removed.mode = None

    def wrap(switch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def switched(callback: Any) -> Any:
            # Nothing of ours may run while frames are evaluated: it would be compiled.
            if callback is not None and recorder.active:
                guard.run("compile", off)
            before = switch(callback)
            if callback is None and removed.mode is not None:
                guard.run("compile", on)
            return before

        return switched

    patches.replace(sys.modules[_DYNAMO], "set_eval_frame", wrap)
