"""What the hub tells its sinks: one value for each sync, before sinks number it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xlagraph.capture.places.analysis import Analysis
from xlagraph.run.records import BucketState, Frame, LiveTensor, ParameterTensor
from xlagraph.tensors import Tensor


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A module compiled in a sync."""

    digest: str
    module: str
    text: bytes
    proto: bytes | None
    """The same as an ``HloModuleProto``, where instructions have their Python stacks there."""
    analysis: Analysis | None
    key: tuple[tuple[str, str], ...]
    """Parts of the cache key beside the analysis; see ``GraphRecord.key``."""
    parameters: tuple[ParameterTensor, ...]
    outputs: tuple[Tensor | None, ...]
    live_tensors: tuple[LiveTensor, ...]
    """The pending tensors before the sync; empty when not looked at."""
    tensors_agree: bool
    """True when those tensors are the module's outputs, by number and sizes."""


class SyncEvent(NamedTuple):
    """One sync; fields named as in ``SyncRecord``, which adds index and step.

    A tuple, because one is made at every step and a frozen dataclass takes 4 us.
    """

    rank: int
    time: float
    seconds: float
    kind: str
    entry: str
    ends_step: bool
    outcome: str
    compile_seconds: float
    compiled: tuple[CompiledGraph, ...]
    graphs: tuple[str, ...]
    graph_is_inferred: bool
    graph_is_open: bool
    """A hit that only a close look can name: graphs of one size ran at its line."""
    fingerprint: tuple[int, ...]
    call_site: tuple[Frame, ...]
    live_tensors: tuple[LiveTensor, ...]
    asked: bool
    """A signal asked to look closely at this step."""
    buckets: tuple[BucketState, ...]


class Repeat(NamedTuple):
    """How a sink is told that a step like one before has run again."""

    number: int
    """The sink's number of that step, by which readers of its ``cells`` know it."""
    tell: Callable[[Sequence[int], Sequence[int]], None]
    """To be called with the starts and ends (Unix time in ns) of those that followed."""


class Sink(Protocol):
    """Receives what the hub sees. Exceptions are caught by the hub and end the sink's calls."""

    name: str
    """Tells this sink from others."""

    may_want_deep: bool
    """Whether ``wants_deep`` is ever true: then every step is asked about."""

    wants_lines: bool
    """Whether graphs are to have the program's lines; see ``xlagraph.capture.places.lines``."""

    @property
    def cells(self) -> memoryview | None:
        """Where steps may wait to be told, as ``xlagraph.run.journal`` has it.

        None: the sink is to be told of each step at once.
        """

    def wants_deep(self) -> bool:
        """Whether the step now running is to be looked at closely (level 2)."""

    def on_sync(self, event: SyncEvent) -> None:
        """A sync has ended."""

    def repeater(self, event: SyncEvent) -> Repeat | None:
        """How to tell of later syncs like ``event``, which ``on_sync`` was just told of.

        None: this event cannot be repeated.
        """

    def on_flush(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        """A reduce-scatter bucket that held something was asked to flush."""

    def on_note(self, what: str, detail: str) -> None:
        """Something that a reader of the run should know."""

    def forget(self) -> None:
        """The process was forked and this is the child: start afresh."""

    def close(self, failure: str = "") -> None:
        """The capture ends; `failure`: the exception that ends it, if one does."""
