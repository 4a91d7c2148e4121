"""One recording: from the hooks going in to the last line of the log."""

from __future__ import annotations

import platform
import sys
import threading
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.patches import Guard, Patches
from xlagraph.capture.host.say import say
from xlagraph.streams.format import VERSION
from xlagraph.streams.record import autograd, compiled, frameworks, graphs, host, kernels
from xlagraph.streams.record.device import REGISTRIES, Cuda
from xlagraph.streams.record.journal import Journal
from xlagraph.streams.record.mode import allow_higher_order, make_mode, push, remove
from xlagraph.streams.record.names import live, named_tensors
from xlagraph.streams.record.recorder import Recorder
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xlagraph.streams.format import Record
    from xlagraph.streams.record.device import Device

OTHER_LIBRARIES = {
    "cupy": Unseen.CUPY,
    "pycuda": Unseen.PYCUDA,
    "numba.cuda": Unseen.NUMBA,
}
"""Libraries that launch work past torch, by the module that shows their use."""

PARTS: tuple[tuple[str, Callable[[Patches, Guard, Recorder], None]], ...] = (
    ("backward", autograd.install),
    ("threads", host.install),
    ("graphs", graphs.install),
    ("triton", kernels.install),
    ("compile", compiled.install),
    ("buckets", frameworks.install),
)
"""Hooks that are put in one by one: what one torch does not have, the others do without."""


class Recording:
    """Records everything between `start` and `stop`, both called by the training thread.

    Raises:
        OSError: the log cannot be created.
    """

    def __init__(self, path: Path, max_bytes: int, began: str, device: Device | None = None):
        self.path = path
        self._began = began
        self._device = device or Cuda()
        self._journal = Journal(path, max_bytes)
        self._guard = Guard(self._failed)
        self._patches = Patches()
        self._missing: list[str] = []
        self._named: dict[str, list[list[int]]] = {}
        self.recorder = Recorder(self._device, self._journal)
        self._mode: Any = None
        self._others = threading.active_count() - 1

    def start(self) -> None:
        """Puts the hooks in and begins."""
        recorder, guard = self.recorder, self._guard
        self._journal.add(self._meta())
        guard.run("history", self._device.begin_history)
        guard.run("events", self._listen)
        recorder.active = True
        for name, install in PARTS:
            guard.run(name, install, self._patches, guard, recorder)
        self.step()
        self._mode = make_mode(recorder, guard)
        guard.run("operator", allow_higher_order, self._patches, self._mode)
        push(self._mode)

    def step(self) -> None:
        """A training step begins: names what has a name by now."""
        self._guard.run("names", self._name)
        self.recorder.search = self._name
        self._guard.run("marks", self.recorder.mark, "step")
        self._guard.run("journal", self.recorder.flush)

    def stop(self) -> None:
        """Takes the hooks out and ends the log."""
        self.recorder.active = False
        if self._mode is not None:
            remove(self._mode)
        self._patches.undo()
        self._guard.run("events", self._device.unlisten)
        self._guard.run("journal", self.recorder.flush)
        self._guard.run("journal", self._journal.close, self._coverage())
        self._guard.run("history", self._device.end_history)

    def forget(self) -> None:
        """In a forked child: the log is its parent's."""
        self.recorder.active = False

    @property
    def records(self) -> int:
        """Lines written so far."""
        return self._journal.records

    def _listen(self) -> None:
        recorder, guard = self.recorder, self._guard
        callbacks: dict[str, Callable[..., None]] = {
            "record": recorder.on_event_record,
            "wait": recorder.on_event_wait,
            "ev_del": recorder.on_event_gone,
            "sync_dev": recorder.on_sync_device,
            "sync_st": recorder.on_sync_stream,
            "sync_ev": recorder.on_sync_event,
            "alloc": recorder.on_alloc,
            "free": recorder.on_free,
        }

        def guarded(callback: Callable[..., None]) -> Callable[..., None]:
            return lambda *values: guard.run("events", callback, *values)

        assert callbacks.keys() == REGISTRIES.keys()
        self._missing = self._device.listen({k: guarded(c) for k, c in callbacks.items()})

    def _name(self) -> None:
        """Names tensors; those that are where they were at the last step are not named again."""
        recorder = self.recorder
        recorder.names = {}
        modules, optimizers = live()
        recorder.replicas.find(modules)
        for tensor, name in named_tensors(modules, optimizers):
            if not self._device.holds(tensor):
                continue
            recorder.names.setdefault(id(tensor), name)
            place = recorder.range_of(tensor)
            if self._named.get(name) != place:
                self._named[name] = place
                recorder.mark("name", [tensor], tensor=name)

    def _meta(self) -> Record:
        return {
            "k": "meta",
            "v": VERSION,
            "torch": sys.modules["torch"].__version__,
            "python": platform.python_version(),
            "began": self._began,
        }

    def _coverage(self) -> Record:
        """What the log says of itself in its last line."""
        unseen: dict[str, int | None] = {
            what: times if times >= 0 else None for what, times in self.recorder.unseen.items()
        }
        off = [name for name in self._guard.failures if name != "journal"]
        unseen.update({f"{name}: the hook failed and was switched off": None for name in off})
        unseen.update({f"{kind}: this torch does not tell of it": None for kind in self._missing})
        if self._journal.unsized:
            unseen[Unseen.UNSIZED] = self._journal.unsized
        if self._journal.full:
            unseen[Unseen.LOG_FULL] = None
        if self._others > 0:
            unseen[Unseen.EARLIER_THREADS] = None
        unseen.update({what: None for name, what in OTHER_LIBRARIES.items() if name in sys.modules})
        blind = {"record", "wait"} & set(self._missing)
        edges = not (self._guard.is_off("events") or blind)
        return {"k": "coverage", "edges": edges, "unseen": unseen}

    @staticmethod
    def _failed(name: str, detail: str) -> None:
        say(f"stream log: {name}: {detail}; the program is not affected")
