"""The hub of this process: made once, when torch_xla is imported or a capture begins."""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import sys
from functools import partial

from xlagraph.capture.host.failure import listen_in_child, of_child, uncaught
from xlagraph.capture.host.imports import when_imported
from xlagraph.capture.host.options import Options
from xlagraph.capture.places import lines
from xlagraph.capture.steps.events import Sink
from xlagraph.capture.steps.hub import Hub
from xlagraph.capture.steps.values import install_values
from xlagraph.capture.tensors import fsdp
from xlagraph.capture.xla_dump.dump import prepare_dump

_DYNAMO_RULES = "torch._dynamo.trace_rules"
_LAST = -100
_state: dict[str, Hub] = {}


def the_hub() -> Hub | None:
    """The hub, if one was made."""
    return _state.get("hub")


def ensure_hub(options: Options) -> Hub:
    """The hub, with its hooks in; ``torch_xla`` must have been imported.

    Raises:
        OSError: there is no room for temporary files.
    """
    hub = the_hub()
    if hub is None:
        xlac = sys.modules["_XLAC"]
        is_late = xlac._xla_runtime_is_initialized()
        with_stacks = (options.level.lines and not lines.is_decided()) or lines.are_on()
        dump = None if is_late else prepare_dump(with_stacks=with_stacks)
        try:
            hub = Hub(xlac, dump, options.arm_steps)
            hub.install()
            install_values(hub.hooks)
        except BaseException:
            if hub is not None:
                hub.uninstall()
            if dump is not None:
                dump.remove()
            raise
        _state["hub"] = hub
        when_imported(fsdp.MODULE, partial(hub.guard.run, "fsdp", hub.buckets.install))
        when_imported(_DYNAMO_RULES, _skip_in_dynamo)
        os.register_at_fork(after_in_child=_after_fork)
        multiprocessing.util.register_after_fork(hub, _end_with_multiprocessing)
        if _is_spawned():
            _end_with_multiprocessing(hub)
        atexit.register(close_all)
    hub.evidence.live.with_holders |= options.holders
    return hub


def _is_spawned() -> bool:
    """Whether ``multiprocessing`` started this interpreter, which may still import the program."""
    is_starting = getattr(multiprocessing.current_process(), "_inheriting", False)
    return is_starting or multiprocessing.parent_process() is not None


def _skip_in_dynamo() -> None:
    """Keep torch.compile from tracing into the hooks."""
    sys.modules[_DYNAMO_RULES].add("xlagraph.capture")


def add_sink(hub: Hub, sink: Sink) -> None:
    """Let ``sink`` hear what the hub sees, until ``remove_sink`` or the end of the process."""
    atexit.unregister(close_all)
    atexit.register(close_all)  # anew: to run before torch_xla's own
    hub.join(sink)


def remove_sink(hub: Hub, sink: Sink, failure: str = "") -> None:
    """Stop telling ``sink`` and close it; ``failure``: the exception that ends its capture."""
    if sink in hub.sinks:
        hub.guard.run("sync", hub.settle)
        hub.leave(sink)
        hub.guard.run(f"close {sink.name}", sink.close, failure)


def _after_fork() -> None:
    """In a forked child: its records go to a file of its own, the parent's dump stays."""
    hub = the_hub()
    if hub is None:
        return
    hub.guard.run("fork", hub.after_fork)
    for sink in hub.sinks:
        hub.guard.run("fork", sink.forget)


def _end_with_multiprocessing(_hub: Hub) -> None:
    """In a child of ``multiprocessing``: forked ones end without the functions of ``atexit``."""
    listen_in_child()
    multiprocessing.util.Finalize(None, _close_in_child, exitpriority=_LAST)


def _close_in_child() -> None:
    close_all(of_child())


def close_all(failure: str = "") -> None:
    """End every capture; the private dump folder goes too.

    ``failure``: the exception that ends the program, if it is not the one that Python printed.
    """
    hub = the_hub()
    if hub is None:
        return
    hub.guard.run("sync", hub.settle)
    for sink in hub.sinks[::-1]:
        hub.leave(sink)
        hub.guard.run(f"close {sink.name}", sink.close, failure or uncaught())
    if hub.evidence.dump is not None:
        hub.guard.run("dump", hub.evidence.dump.remove)
