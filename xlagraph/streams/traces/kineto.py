"""The Kineto trace: what the host called when, and on which stream it ran."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.traces.files import Json

_ACTIVITIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_NOT_THE_USER = ("torch/", "<", "threading.py", "runpy.py")
_RUN_BACKWARD = "run_backward"


class Operator(NamedTuple):
    """A call of an operator, or of an autograd node, on the host."""

    name: str
    thread: int
    start: float
    end: float
    external: int
    """Its id among GPU activities."""
    function: int
    """Its record function id: that of the ExecutionTrace."""
    sequence: int
    """-1 for none."""
    is_backward: bool


class Call(NamedTuple):
    """A call of the CUDA runtime that orders something."""

    name: str
    thread: int
    start: float
    correlation: int


class Sync(NamedTuple):
    """What CUPTI says of a wait, by the correlation of its call."""

    kind: str
    stream: int
    source: int
    """The stream that is waited for; -1 if CUPTI could not say."""
    record: int
    """Correlation of the event's record; -1 likewise."""


class Memory(NamedTuple):
    """An allocation, or with negative bytes a free."""

    thread: int
    start: float
    address: int
    bytes: int


class Python(NamedTuple):
    """A call of a Python function."""

    name: str
    thread: int
    start: float
    end: float


@dataclass(slots=True)
class Kineto:
    """The events of a trace that matter here, each list by time."""

    operators: list[Operator] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    python: list[Python] = field(default_factory=list)
    syncs: dict[int, Sync] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    """The stream of what an operator launched, by external id."""
    devices: dict[int, int] = field(default_factory=dict)
    """The device of each stream."""
    outside: int = 0
    """Kernels that belong to no operator."""

    @property
    def unresolved(self) -> int:
        """Waits between streams of which the trace does not say what they wait for."""
        waits = [call for call in self.calls if call.name == "cudaStreamWaitEvent"]
        known = [
            sync
            for call in waits
            if (sync := self.syncs.get(call.correlation)) is not None
            if sync.source >= 0 and sync.record >= 0
        ]
        return len(waits) - len(known)


def read_kineto(trace: Json, name: str) -> Kineto:
    """The events of a Chrome trace that torch.profiler exported.

    Raises:
        SpecError: it is no such trace.
    """
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        raise SpecError(f"{name}: not a Kineto trace: it has no list of traceEvents")
    found = Kineto()
    number = 0
    try:
        for number, event in enumerate(events):  # noqa: B007 - told below
            _take(found, event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(
            f"{name}: event {number} is not as a Kineto trace has it: {error!r}"
        ) from None
    found.operators.sort(key=lambda one: (one.start, -one.end))
    found.python.sort(key=lambda one: (one.start, -one.end))
    found.calls.sort(key=lambda one: one.start)
    found.memory.sort(key=lambda one: one.start)
    return found


def _take(found: Kineto, event: Json) -> None:
    category, arguments = event.get("cat"), event.get("args") or {}
    if category == "cpu_op":
        found.operators.append(_operator(event, arguments))
    elif category in _ACTIVITIES:
        _take_activity(found, arguments)
    elif category == "cuda_sync":
        found.syncs[int(arguments["correlation"])] = Sync(
            str(arguments.get("cuda_sync_kind", event["name"])),
            int(arguments.get("stream", -1)),
            int(arguments.get("wait_on_stream", -1)),
            int(arguments.get("wait_on_cuda_event_record_corr_id", -1)),
        )
    elif category == "cuda_runtime":
        correlation = int(arguments.get("correlation", 0))
        found.calls.append(
            Call(str(event["name"]), int(event["tid"]), float(event["ts"]), correlation)
        )
    elif category == "cpu_instant_event" and event.get("name") == "[memory]":
        if arguments.get("Device Type") == 1:
            start, address = float(event["ts"]), int(arguments["Addr"])
            found.memory.append(Memory(int(event["tid"]), start, address, int(arguments["Bytes"])))
    elif category == "python_function":
        start = float(event["ts"])
        end = start + float(event.get("dur", 0))
        found.python.append(Python(str(event["name"]), int(event["tid"]), start, end))


def _operator(event: Json, arguments: Json) -> Operator:
    start = float(event["ts"])
    return Operator(
        str(event["name"]),
        int(event["tid"]),
        start,
        start + float(event.get("dur", 0)),
        int(arguments.get("External id", 0)),
        int(arguments.get("Record function id", 0)),
        int(arguments.get("Sequence number", -1)),
        bool(arguments.get("Fwd thread id", 0)),
    )


def _take_activity(found: Kineto, arguments: Json) -> None:
    external, stream = arguments.get("External id"), int(arguments["stream"])
    found.devices.setdefault(stream, int(arguments.get("device", 0)))
    if external is None:
        found.outside += 1
    else:
        found.streams.setdefault(int(external), stream)


class Sites:
    """The innermost user frame at a moment of a thread; moments are asked for in order."""

    def __init__(self, python: list[Python]):
        self._events: dict[int, list[Python]] = defaultdict(list)
        for one in python:
            self._events[one.thread].append(one)
        self._next: dict[int, int] = defaultdict(int)
        self._stack: dict[int, list[Python]] = defaultdict(list)

    def at(self, thread: int, time: float) -> str:
        """``file:line function``; ``""`` where there is no frame of the user's."""
        events, stack = self._events[thread], self._stack[thread]
        while self._next[thread] < len(events) and events[self._next[thread]].start <= time:
            one = events[self._next[thread]]
            self._next[thread] += 1
            while stack and stack[-1].end <= one.start:
                stack.pop()
            stack.append(one)
        while stack and stack[-1].end < time:
            stack.pop()
        for one in reversed(stack):
            if not one.name.startswith(_NOT_THE_USER) and "): " in one.name:
                return _site(one.name)
        return ""


def _site(name: str) -> str:
    """``seeds.py(85): s001`` as ``seeds.py:85 s001``."""
    place, _, function = name.partition("): ")
    file, _, line = place.rpartition("(")
    return f"{file.rpartition('/')[2]}:{line} {function}"


def backwards(kineto: Kineto) -> Iterator[tuple[float, float, int]]:
    """Begin, end and thread of each backward pass, where Python calls were traced."""
    for one in kineto.python:
        if _RUN_BACKWARD in one.name and one.name.startswith("<built-in"):
            yield one.start, one.end, one.thread
