"""The hub of this process: made once, when torch_xla is imported or a capture begins."""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

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
from xlagraph.capture.options import Options
from xlagraph.capture.values import install_values
from xlagraph.run.scratch import scratch_folder

_DYNAMO_RULES = "torch._dynamo.trace_rules"
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


def make_temporary_dump() -> Dump:
    """Switch XLA's dump on, into a temporary folder.

    Raises:
        OSError: there is no room for temporary files.
    """
    folder = scratch_folder()
    dump = prepare_dump(folder, dump_tag(), os.environ)
    dump.owned = folder
    return dump


def the_hub() -> Hub | None:
    """The hub, if one was made."""
    return _state.get("hub")


def ensure_hub(dump: Dump | None, options: Options) -> Hub:
    """The hub, with its hooks in; ``torch_xla`` must have been imported."""
    hub = the_hub()
    if hub is None:
        hub = _state["hub"] = Hub(sys.modules["_XLAC"], dump, options.arm_steps)
        hub.install()
        install_values(hub.hooks)
        when_imported(fsdp.MODULE, hub.buckets.install)
        when_imported(_DYNAMO_RULES, _skip_in_dynamo)
        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(close_all)
    hub.evidence.live.with_holders |= options.holders
    return hub


def _skip_in_dynamo() -> None:
    """Keep torch.compile from tracing into the hooks."""
    sys.modules[_DYNAMO_RULES].add("xlagraph.capture")


def add_sink(hub: Hub, sink: Sink) -> None:
    """Let ``sink`` hear what the hub sees, until ``remove_sink`` or the end of the process."""
    atexit.unregister(close_all)
    atexit.register(close_all)  # anew: to run before torch_xla's own
    hub.begin()
    hub.sinks.append(sink)


def remove_sink(hub: Hub, sink: Sink) -> None:
    """Stop telling ``sink`` and close it."""
    if sink in hub.sinks:
        hub.guard.run("sync", hub.settle)
        hub.sinks.remove(sink)
        hub.guard.run(f"close {sink.name}", sink.close)


def _after_fork() -> None:
    """In a forked child: its records go to a file of its own, the parent's dump stays."""
    hub = the_hub()
    if hub is None:
        return
    hub.after_fork()
    for sink in hub.sinks:
        hub.guard.run("fork", sink.forget)
    if hub.sinks and not sys.modules["_XLAC"]._xla_runtime_is_initialized():
        hub.evidence.dump = hub.guard.run("fork", make_temporary_dump)


def close_all() -> None:
    """End every capture; the private dump folder goes too."""
    hub = the_hub()
    if hub is None:
        return
    hub.guard.run("sync", hub.settle)
    while hub.sinks:
        sink = hub.sinks.pop()
        hub.guard.run(f"close {sink.name}", sink.close)
    if hub.evidence.dump is not None:
        hub.guard.run("dump", hub.evidence.dump.remove)
