"""The hub of this process: made once, when torch_xla is imported or a capture begins."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from pathlib import Path

from xlagraph.capture import fsdp
from xlagraph.capture.dump import Dump, prepare_dump
from xlagraph.capture.events import Sink
from xlagraph.capture.hub import Hub
from xlagraph.capture.imports import when_imported

_state: dict[str, Hub] = {}


def dump_tag() -> str:
    """A name for this process's private dump folder, unlike any other's in the run."""
    return f"{socket.gethostname()}-{os.getpid()}"


def make_dump(folder: Path) -> Dump:
    """Switch XLA's dump on, into the run folder.

    Raises:
        OSError: the folder cannot be written.
    """
    return prepare_dump(folder, dump_tag(), os.environ)


def the_hub() -> Hub | None:
    """The hub, if one was made."""
    return _state.get("hub")


def ensure_hub(dump: Dump | None, arm_steps: int) -> Hub:
    """The hub, with its hooks in; ``torch_xla`` must have been imported."""
    hub = the_hub()
    if hub is None:
        hub = _state["hub"] = Hub(dump, arm_steps)
        hub.install(sys.modules["_XLAC"])
        when_imported(fsdp.MODULE, hub.buckets.install)
    return hub


def add_sink(hub: Hub, sink: Sink) -> None:
    """Let ``sink`` hear what the hub sees, until ``remove_sink`` or the end of the process."""
    if not hub.sinks:
        atexit.register(close_all)
    hub.sinks.append(sink)


def close_all() -> None:
    """End every capture; the private dump folder goes too."""
    hub = the_hub()
    if hub is None:
        return
    while hub.sinks:
        sink = hub.sinks.pop()
        hub.guard.run("close", sink.close)
    if hub.dump is not None:
        hub.guard.run("dump", hub.dump.remove)
