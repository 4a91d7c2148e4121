"""A sink that writes a run folder, and the summary line at its end."""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

from xlagraph.capture.host.arguments import masked
from xlagraph.capture.host.identity import identity
from xlagraph.capture.host.options import Options
from xlagraph.capture.host.say import say
from xlagraph.capture.journal import Journal
from xlagraph.capture.places.lines import are_on, is_decided
from xlagraph.capture.places.sources import Place, SourceReader, places_in
from xlagraph.capture.steps.events import CompiledGraph, Repeat, SyncEvent
from xlagraph.capture.xla_dump.dump import Dump
from xlagraph.figures import count, duration
from xlagraph.run.codec import again
from xlagraph.run.journal import new_cells
from xlagraph.run.records import (
    EXCEPTION,
    FORMAT_VERSION,
    BucketState,
    FlushRecord,
    GraphRecord,
    LiveTensor,
    NoteRecord,
    ProcessRecord,
    SyncRecord,
)
from xlagraph.run.remote import Spool, is_url
from xlagraph.run.writer import RunWriter

_UNRECORDED = new_cells()
_WITH_LINES = ", with source lines (XLAGRAPH=watch: without)"
_PACKAGES = ("torch", "torch_xla", "xlagraph")


@dataclass(slots=True)
class Totals:
    """What the summary line says."""

    steps: int = 0
    compiles: int = 0
    seconds: float = 0.0


class Session:
    """Numbers what the hub sees and writes it; the file opens with the first thing to say."""

    def __init__(self, options: Options, folder: Path, dump: Dump | None) -> None:
        self.options = options
        self._dump = dump
        self.folder = folder
        self.name = f"{folder} ({id(self):x})"
        self.may_want_deep = options.level.tensors
        self.wants_lines = options.level.lines
        self._lines = _WITH_LINES if self.wants_lines and not is_decided() else ""
        self.totals = Totals()
        self._spool = Spool(folder, options.path, say) if is_url(options.path) else None
        self._writer: RunWriter | None = None
        self._journal: Journal | None = None
        self._lock = threading.RLock()
        self._index = 0
        self._last: tuple[SyncEvent | None, int] = (None, -1)
        self._steps: dict[int, int] = {}
        self._started = time.time()
        self._sources = SourceReader()

    def wants_deep(self) -> bool:
        """Level 2, within the steps asked for."""
        options = self.options
        return options.level.tensors and max(self._steps.values(), default=0) in options.steps

    def on_sync(self, event: SyncEvent) -> None:
        """Write the sync's record and the graphs that are new.

        Raises:
            OSError: the folder cannot be written; the hub switches this sink off.
        """
        with self._lock:
            if event.rank not in self.options.ranks:
                return
            index, self._index = self._index, self._index + 1
            self._last = event, index
            step = self._steps.get(event.rank, 0)
            if event.ends_step:
                self._steps[event.rank] = step + 1
            if event.outcome == "compile":
                self.totals.compiles += max(len(event.compiled), 1)
                self.totals.seconds += event.compile_seconds
            writer = self._open(event.rank)
            if not (event.compiled or event.buckets or event.live_tensors):
                writer.write_plain(event, index, step)
                return
            tensors = event.live_tensors if self.may_want_deep or event.asked else ()
            writer.write(_sync_record(event, index, step, tensors))
            places = set(_places(event, tensors))
            for setting in self._sources.settings(places) if event.compiled else ():
                places.add((setting.file, setting.line))
                writer.write(setting)
            for source in self._sources.new(places):
                writer.write(source)
            if event.ends_step:
                for source in self._sources.loops((one.file, one.line) for one in event.call_site):
                    writer.write(source)
            for graph in event.compiled:
                # Equal text can compile twice, under two keys: each has its record.
                writer.store_graph(graph.text, graph.proto)
                writer.write(_graph_record(graph, index))

    def repeater(self, event: SyncEvent) -> Repeat | None:
        """Writes the lines of later syncs like ``event``."""
        if event.rank not in self.options.ranks:
            return Repeat(0, _ignore)
        writer, steps, rank = self._writer, self._steps, event.rank
        last, of = self._last
        if writer is None or last is not event:
            return None  # another thread's sync came between
        line = again(of)

        def tell(starts: Sequence[int], ends: Sequence[int]) -> None:
            with self._lock:
                first = self._index
                lines = []
                for start, end in zip(starts, ends, strict=True):
                    lines.append(line % (self._index, steps[rank], start, end - start))
                    self._index += 1
                    steps[rank] += 1
                writer.append_hits(lines, first)

        return Repeat(of, tell)

    def on_flush(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        """Write the flush's record."""
        with self._lock:
            self._open(None).write(FlushRecord(self._index, before, emptied))

    def on_note(self, what: str, detail: str) -> None:
        """Write a note."""
        with self._lock:
            self._open(None).write(NoteRecord(self._index, what, detail))

    def _open(self, rank: int | None) -> RunWriter:
        if self._writer is None:
            self._journal = _journal()
            try:
                process = self._process_record(rank)
                self._writer = RunWriter(self.folder, process, self.options.max_bytes)
            except BaseException:
                self._close_journal()
                raise
        return self._writer

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @property
    def cells(self) -> memoryview | None:
        """Shared memory, if there is any; any memory, where nothing is recorded."""
        if self._writer is None:
            return _UNRECORDED
        return None if self._journal is None else self._journal.cells

    def _process_record(self, rank: int | None) -> ProcessRecord:
        me = identity()
        return ProcessRecord(
            format=FORMAT_VERSION,
            rank=me.rank if rank is None else rank,
            world_size=me.world_size,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=self._started,
            argv=masked(sys.argv),
            level=self.options.level.name,
            lines=are_on(),
            versions=(("python", platform.python_version()), *_versions()),
            journal="" if self._journal is None else self._journal.token,
            dump="" if self._dump is None else str(self._dump.private.modules),
            local_rank=me.local_rank,
            rank_source=me.source,
        )

    def forget(self) -> None:
        """In a forked child: leave the parent's file to the parent and start afresh."""
        self._lock = threading.RLock()
        if self._writer is not None:
            self._writer.abandon()
        if self._journal is not None:
            self._journal.abandon()
        self._writer = self._journal = None
        self._index = 0
        self._steps.clear()
        self.totals = Totals()
        self._started = time.time()
        self._sources = SourceReader()

    def close(self, failure: str = "") -> None:
        """Close the file and say in one line what was seen."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            if failure and not writer.closed:
                writer.note_end(NoteRecord(self._index, EXCEPTION, failure))
            dropped = writer.dropped
            if dropped and not writer.closed:
                writer.note_end(NoteRecord(self._index, "dropped", str(dropped)))
            try:
                writer.close()
            finally:
                self._close_journal()
            if self._spool is not None:
                self._spool.close()
            if self.options.summary:
                totals = self.totals
                totals.steps = max(self._steps.values(), default=0)
                shown = self.folder if self._spool is None else self._spool.place
                say(
                    f"{count(totals.steps, 'step')}, {count(totals.compiles, 'compile')}, "
                    f"{duration(totals.seconds)} compiling{self._lines}; "
                    f"see: xlagraph explain {shown}"
                )


def _journal() -> Journal | None:
    try:
        return Journal()
    except OSError:  # without shared memory every step is written at once
        return None


def _ignore(_starts: Sequence[int], _ends: Sequence[int]) -> None:
    """Repeats on a rank that is not recorded."""


def _versions() -> list[tuple[str, str]]:
    found = []
    for package in _PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return found


def _sync_record(
    event: SyncEvent, index: int, step: int, tensors: tuple[LiveTensor, ...]
) -> SyncRecord:
    return SyncRecord(
        index=index,
        step=step,
        rank=event.rank,
        time=event.time,
        seconds=event.seconds,
        kind=event.kind,
        entry=event.entry,
        outcome=event.outcome,
        compile_seconds=event.compile_seconds,
        graphs=event.graphs,
        graph_is_inferred=event.graph_is_inferred,
        fingerprint=event.fingerprint,
        call_site=event.call_site,
        live_tensors=tensors,
        buckets=event.buckets,
    )


def _places(event: SyncEvent, tensors: tuple[LiveTensor, ...]) -> Iterator[Place]:
    """The lines that an event's records name."""
    made = (
        (one.made, *(missing.defined for missing in one.without_gradient)) for one in event.buckets
    )
    for site in (event.call_site, *(one.created for one in tensors), *chain.from_iterable(made)):
        for frame in site:
            yield frame.file, frame.line
    for graph in event.compiled:
        yield from places_in(graph.text, graph.proto)


def _graph_record(graph: CompiledGraph, sync: int) -> GraphRecord:
    key: tuple[tuple[str, str], ...] = ()
    if graph.analysis is not None:
        named = (
            ("graph_hash", graph.analysis.graph_hash),
            ("computation_hash", graph.analysis.computation_hash),
            ("inputs", str(graph.analysis.inputs)),
            ("outputs", str(graph.analysis.outputs)),
        )
        key = tuple((name, value) for name, value in named if value)
    if graph.live_tensors:
        ids = " ".join(str(tensor.tensor_id) for tensor in graph.live_tensors)
        key += (("live_tensors", ids), ("live_tensors_agree", str(graph.tensors_agree)))
    return GraphRecord(
        digest=graph.digest,
        sync=sync,
        module=graph.module,
        bytes=len(graph.text),
        key=key + graph.key,
        parameters=graph.parameters,
        outputs=graph.outputs,
    )
