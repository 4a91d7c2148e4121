"""A device for tests: the CPU, with streams that are only numbers."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.logs import log_from_text

from xlagraph.streams.record.session import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xlagraph.streams.record.device import Allocation

Record = dict[str, Any]


class FakeDevice:
    """Stands for CUDA: what a test says is the current stream, and what it calls back."""

    def __init__(self) -> None:
        self.now: dict[int, int] = {}
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.made: list[Allocation] = []
        self.absent: list[str] = []
        self.ended = 0

    def holds(self, tensor: Any) -> bool:
        return bool(tensor.device.type == "cpu")

    def current(self) -> int:
        return -1

    def stream(self, device: int) -> int:  # noqa: ARG002
        return self.now.get(threading.get_ident(), 0)

    def named(self, raw: int) -> int:
        return raw

    def listen(self, callbacks: Mapping[str, Callable[..., None]]) -> list[str]:
        self.callbacks = dict(callbacks)
        return self.absent

    def unlisten(self) -> None:
        self.callbacks = {}

    def begin_history(self) -> bool:
        return True

    def allocations(self) -> list[Allocation]:
        made, self.made = self.made, []
        return made

    def end_history(self) -> None:
        self.ended += 1

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """What this thread launches within goes to a stream."""
        thread = threading.get_ident()
        before = self.now.get(thread, 0)
        self.now[thread] = stream
        try:
            yield
        finally:
            self.now[thread] = before


class Recorded:
    """A recording of a test, and its records afterwards."""

    def __init__(self, path: Path):
        self.device = FakeDevice()
        self.recording = Recording(path, 1 << 30, "in a test", self.device)
        self.path = path

    def __enter__(self) -> Recorded:
        self.recording.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.recording.stop()

    @property
    def records(self) -> list[Record]:
        """All records after the first."""
        return [record for _, record in log_from_text(self.path.read_bytes()).records()]

    def of(self, kind: str) -> list[Record]:
        """The records of one kind."""
        return [record for record in self.records if record["k"] == kind]

    def operators(self) -> list[str]:
        """Names of the operators in order, without their overloads."""
        return [record["op"].split(".")[1] for record in self.of("op")]
