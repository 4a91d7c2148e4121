"""The accelerator as a recorder sees it: current streams, callbacks, the allocator's history."""

# ruff: noqa: SLF001 - what a recorder reads of torch has private names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_HISTORY = 4_000_000
"""Allocations and frees that the allocator keeps between two looks at them."""


class Allocation(NamedTuple):
    """What the allocator says of one allocation."""

    pointer: int
    size: int
    stream: int


class Device(Protocol):
    """An accelerator, or what stands for one in a test."""

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor is on it."""

    def current(self) -> int:
        """The number of the current device."""

    def stream(self, device: int) -> int:
        """The current stream of a device; the default stream of device k is -k."""

    def named(self, raw: int) -> int:
        """A stream that a callback names, numbered as by `stream`."""

    def listen(self, callbacks: Mapping[str, Callable[..., None]]) -> list[str]:
        """Calls these back from now on; the names of those that this torch does not have."""

    def unlisten(self) -> None:
        """Calls nothing back any more."""

    def begin_history(self) -> bool:
        """Lets the allocator keep a history; False where it cannot."""

    def allocations(self) -> list[Allocation]:
        """What was allocated since this was asked last, in order."""

    def end_history(self) -> None:
        """As it was before `begin_history`."""


REGISTRIES = {
    "record": "EventRecordCallbacks",
    "wait": "EventWaitCallbacks",
    "ev_del": "EventDeletionCallbacks",
    "sync_dev": "DeviceSynchronizationCallbacks",
    "sync_st": "StreamSynchronizationCallbacks",
    "sync_ev": "EventSynchronizationCallbacks",
    "alloc": "MemoryAllocationCallbacks",
    "free": "MemoryDeallocationCallbacks",
}
"""The lists of callbacks in ``torch.cuda._gpu_trace``, by the kind of record they lead to."""


class Cuda:
    """CUDA through torch's own callbacks; nothing here synchronizes."""

    def __init__(self) -> None:
        torch = sys.modules["torch"]
        self._torch = torch
        self._raw_stream = torch._C._cuda_getCurrentRawStream
        self.current: Callable[[], int] = torch._C._cuda_getDevice
        self._put_in: list[tuple[Any, Callable[..., None]]] = []
        self._own_history = False
        self._seen: list[int] = []

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor is on a CUDA device."""
        found: bool = tensor.is_cuda
        return found

    def stream(self, device: int) -> int:
        """The current stream's handle; -device for the default stream."""
        return self._raw_stream(device) or -device

    def named(self, raw: int) -> int:
        """The handle that a callback gives, for the device that is current within it."""
        return raw or -self.current()

    def listen(self, callbacks: Mapping[str, Callable[..., None]]) -> list[str]:
        """Puts callbacks into ``torch.cuda._gpu_trace`` and switches it on, for good."""
        import torch.cuda._gpu_trace as trace

        absent = []
        for kind, callback in callbacks.items():
            registry = getattr(trace, REGISTRIES[kind], None)
            if registry is None:
                absent.append(kind)
                continue
            registry.add_callback(callback)
            self._put_in.append((registry, callback))
        self._torch._C._activate_gpu_trace()
        return absent

    def unlisten(self) -> None:
        """Takes the callbacks out; torch goes on looking for some at every call."""
        while self._put_in:
            registry, callback = self._put_in.pop()
            if callback in registry.callback_list:
                registry.callback_list.remove(callback)

    def begin_history(self) -> bool:
        """Switches the allocator's history on, unless the program has done so."""
        torch = self._torch
        is_on = getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)()
        if not is_on:
            torch.cuda.memory._record_memory_history(
                "all", context=None, stacks="python", max_entries=MAX_HISTORY
            )
            self._own_history = True
        self._seen = [len(one) for one in self._traces()]
        return True

    def allocations(self) -> list[Allocation]:
        """Allocations of all devices, each device's in order."""
        found = []
        traces = self._traces()
        self._seen += [0] * (len(traces) - len(self._seen))
        for device, trace in enumerate(traces):
            for entry in trace[self._seen[device] :]:
                if entry["action"] == "alloc":
                    stream = entry["stream"] or -device
                    found.append(Allocation(entry["addr"], entry["size"], stream))
            self._seen[device] = len(trace)
        return found

    def end_history(self) -> None:
        """Switches the history off if it was off before."""
        if self._own_history:
            self._torch.cuda.memory._record_memory_history(None)
            self._own_history = False

    def _traces(self) -> list[list[dict[str, Any]]]:
        traces: list[list[dict[str, Any]]] = self._torch.cuda.memory._snapshot()["device_traces"]
        return traces
