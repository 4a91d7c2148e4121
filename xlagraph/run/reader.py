"""Read a run folder back: ``read_run(path)`` gives a frozen :class:`Run`.

A process may have been killed while it wrote: an incomplete last line is counted, not an
error. So is a line of an unknown type. Steps that it had not written yet are found in shared
memory, on its host. Only a folder without any record file is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import zstandard

from xlagraph.errors import XlagraphError
from xlagraph.limits import check_size
from xlagraph.run.codec import NANOSECONDS, LineDecoder, RecordError
from xlagraph.run.ending import END_LINE, what_is_missing
from xlagraph.run.files import open_regular, unfold
from xlagraph.run.journal import Repeated, has_journal, read_journal
from xlagraph.run.places import Place, place
from xlagraph.run.records import (
    AROUND,
    FORMAT_VERSION,
    FORMAT_WITH_END,
    LIMIT,
    NO_END,
    FlushRecord,
    GraphRecord,
    NoteRecord,
    ProcessRecord,
    Record,
    SettingRecord,
    SourceRecord,
    SyncRecord,
)
from xlagraph.run.remote import fetch, is_url
from xlagraph.run.unfinished import unfinished
from xlagraph.run.writer import GRAPH_SUFFIX, GRAPHS, PROTO_SUFFIX

RecordType = TypeVar("RecordType", bound=Record)
_INDEX = attrgetter("index")


class RunError(XlagraphError):
    """A path that is not a run folder, or a graph that is not in it."""


@dataclass(frozen=True, slots=True)
class Process:
    """What one process recorded, in the order it happened."""

    file: str
    record: ProcessRecord
    syncs: tuple[SyncRecord, ...]
    """By index, which rises."""
    graphs: tuple[GraphRecord, ...]
    flushes: tuple[FlushRecord, ...]
    notes: tuple[NoteRecord, ...]
    unread_lines: int
    """Lines that could not be read: a half-written tail, damage."""
    sources: tuple[SourceRecord, ...] = ()
    """Lines of the program that the others refer to."""
    settings: tuple[SettingRecord, ...] = ()
    """Statements of the program that set options of layers and parameters."""
    ended: bool = False
    """The process ended in order: nothing of its records is missing at the end."""

    def sync_at(self, index: int) -> SyncRecord | None:
        """The sync with this index, unless it was not recorded; logarithmic in syncs."""
        place = bisect_left(self.syncs, index, key=_INDEX)
        found = self.syncs[place] if place < len(self.syncs) else None
        return found if found is not None and found.index == index else None


class StoredGraph(NamedTuple):
    """A graph as it is stored; at least one of the two is there."""

    text: str | None
    proto: bytes | None
    """An HloProto or HloModuleProto of the same module, with its stacks."""


@dataclass(frozen=True, slots=True)
class GraphStore:
    """The graphs of a run folder, which any process can open by its address."""

    address: str
    """The run's URL or path."""

    def read(self, digest: str) -> StoredGraph:
        """What is stored under ``digest``: the module as text, as a protobuf, or both.

        Raises:
            RunError: the graph is not there, or its file is damaged.
            TooLargeError: it unfolds to more than the limit.
        """
        text, proto = (self._stored(digest + end) for end in (GRAPH_SUFFIX, PROTO_SUFFIX))
        if text is None and proto is None:
            raise RunError(f"{self.address}: graph {digest} is not in the run folder")
        try:
            return StoredGraph(None if text is None else text.decode(), proto)
        except UnicodeDecodeError as error:
            raise RunError(f"{self.address}: graph {digest} is damaged: {error}") from error

    def _stored(self, name: str) -> bytes | None:
        full = f"{self.address}/{GRAPHS}/{name}"
        try:
            packed = self._place.read(f"{GRAPHS}/{name}")
            return None if packed is None else unfold(packed, full)
        except (zstandard.ZstdError, OSError) as error:
            raise RunError(f"{full}: damaged graph: {error}") from error

    def digests(self) -> tuple[str, ...]:
        """Digests of every graph, sorted.

        Raises:
            RunError: the folder cannot be listed.
        """
        try:
            names = self._place.names(GRAPHS)
        except OSError as error:
            raise RunError(f"{self.address}: cannot be listed: {error}") from error
        found = {
            name.removesuffix(suffix)
            for suffix in (GRAPH_SUFFIX, PROTO_SUFFIX)
            for name in names
            if name.endswith(suffix)
        }
        return tuple(sorted(found))

    @property
    def _place(self) -> Place:
        return place(self.address)


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run folder: its processes by rank, and its graphs on demand."""

    name: str
    """The path or URL as it was given."""
    path: Path
    """The folder, or the local copy of a URL's record files."""
    processes: tuple[Process, ...]

    @property
    def title(self) -> str:
        """The last part of its name, for a heading."""
        return self.name.rstrip("/").rpartition("/")[2].strip(".") or self.path.resolve().name

    @property
    def address(self) -> str:
        """Its URL or absolute path, by which other processes open it."""
        return self.name if is_url(self.name) else str(self.path.resolve())

    @property
    def graphs(self) -> GraphStore:
        """The graphs that it holds."""
        return GraphStore(self.address)

    def graph_text(self, digest: str) -> str:
        """The module text stored under ``digest``.

        Raises:
            RunError: the graph is not in the folder (a size limit, a killed process), or
                its file is damaged.
            TooLargeError: it unfolds to more than the limit.
        """
        text = self.graph(digest).text
        if text is None:
            raise RunError(f"{self.name}: graph {digest} is stored as a protobuf only")
        return text

    def graph(self, digest: str) -> StoredGraph:
        """What is stored under ``digest``: the module as text, as a protobuf, or both.

        Raises:
            RunError: as `graph_text`.
        """
        return self.graphs.read(digest)

    def source(self, file: str, line: int, first: int = 0) -> tuple[tuple[int, str], ...] | None:
        """A line of the program and up to two before and after it, each with its number.

        None where it was not stored: a file of a library, one that had changed since the program
        began, or a run of format 3 or earlier. Linear in the lines that were stored.

        Args:
            file: as the frame calls it.
            line: from 1.
            first: a line before it that is to be among them; 0 for none.
        """
        stored = (one for process in self.processes for one in process.sources if one.file == file)
        found = {n: text for one in stored for n, text in enumerate(one.lines, one.first)}
        if line not in found:
            return None
        near = range(min(line - AROUND, first or line), line + AROUND + 1)
        return tuple((number, found[number]) for number in near if number in found)

    def loop(self, file: str, line: int) -> int:
        """The line with which the loop around a line begins at which a step ended.

        0 where there is none in its function, or it was not stored (see `source`). Linear in the
        lines that were stored.
        """
        stored = (one for process in self.processes for one in process.sources)
        return next((one.loop for one in stored if (one.file, one.line) == (file, line)), 0)

    def unfinished(self) -> tuple[Path, ...]:
        """Module texts that XLA had begun to compile when their process was killed.

        Also those of processes that still run: what is compiling now.
        """
        records = [process.record for process in self.processes]
        found = [path for record in records for path in unfinished(record.dump, record.host)]
        earlier = self.path.glob(".dump-*/module_*.before_optimizations.txt")  # as once was
        return (*found, *sorted(earlier))

    def digests(self) -> tuple[str, ...]:
        """Digests of every graph in the folder, sorted."""
        return self.graphs.digests()


def read_run(path: str | Path) -> Run:
    """Read the run folder at ``path``, which may be an fsspec URL.

    Raises:
        RemoteError: a URL that cannot be read.
        RunError: no such folder, no record file in it, one that cannot be read, or a newer format.
        TooLargeError: a record file holds more than the limit.
    """
    folder = fetch(str(path)) if is_url(str(path)) else Path(path)
    if folder.is_file():
        if ".jsonl" in folder.name:
            raise RunError(f"{folder}: not a run folder: `xlagraph streams` reads a stream log")
        raise RunError(
            f"{folder}: a file, not a run folder: `xlagraph diff A B` compares the modules of two "
            f"files, `xlagraph list {folder}` lists those of one"
        )
    if not folder.exists():
        raise RunError(_missing(folder))
    if not folder.is_dir():
        raise RunError(f"{folder}: not a run folder")
    files = sorted(folder.glob("records-*.jsonl"))
    if not files:
        raise RunError(f"{folder}: not a run folder: it has no records-*.jsonl file")
    found = [process for process in map(_read_process, files) if process is not None]
    if not found:
        raise RunError(f"{folder}: no record file has a readable first line")
    found.sort(key=lambda process: (process.record.rank, process.record.started, process.file))
    return Run(str(path), folder, tuple(found))


def _missing(folder: Path) -> str:
    """Why there is nothing: a graph may have been named where a run is wanted."""
    run, colon, graph = str(folder).rpartition(":")
    if colon and any(Path(run).glob("records-*.jsonl")):
        return f"{folder}: graph {graph} of a run, not a run: name {run}, or use `xlagraph diff`"
    return f"{folder}: no such file or folder"


def _read_process(file: Path) -> Process | None:
    decoder = LineDecoder()
    records: list[Record] = []
    waiting: tuple[Repeated, ...] = ()
    unread, ended = 0, False
    with _opened(file) as stream:
        for raw in stream:
            ended = raw.strip() == END_LINE.encode()
            try:
                record = decoder.decode(raw.decode())
            except (RecordError, UnicodeDecodeError):
                unread += 1
                continue
            if record is not None:
                records.append(record)
            if isinstance(record, ProcessRecord) and record.journal:
                # Before the lines that follow: what is written meanwhile is found in both.
                waiting = read_journal(record.journal)
    heads = _of(records, ProcessRecord)
    if not heads:
        return None
    if heads[0].format > FORMAT_VERSION:
        raise RunError(
            f"{file}: format {heads[0].format} is newer than {FORMAT_VERSION}: update xlagraph"
        )
    syncs = _of(records, SyncRecord)
    notes = _of(records, NoteRecord)
    if not ended and heads[0].format >= FORMAT_WITH_END:
        notes += _no_end(heads[0], syncs)
    if not any(note.what == LIMIT for note in notes):
        syncs += _still_waiting(waiting, syncs, decoder)
    return Process(
        file=file.name,
        record=heads[0],
        syncs=syncs,
        graphs=_of(records, GraphRecord),
        flushes=_of(records, FlushRecord),
        notes=notes,
        unread_lines=unread,
        sources=_of(records, SourceRecord),
        settings=_of(records, SettingRecord),
        ended=ended,
    )


def _no_end(record: ProcessRecord, syncs: Sequence[SyncRecord]) -> tuple[NoteRecord, ...]:
    """Says what a process did not get to write, unless it is still at it."""
    missing = what_is_missing(record, is_recovered=has_journal(record.journal))
    last = syncs[-1].index if syncs else 0
    return (NoteRecord(last, NO_END, missing),) if missing else ()


def _opened(file: Path) -> IO[bytes]:
    try:
        stream = open_regular(file)
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror or error}") from None
    check_size(str(file), file.stat().st_size)
    return stream


def _still_waiting(
    waiting: Sequence[Repeated], written: Sequence[SyncRecord], decoder: LineDecoder
) -> tuple[SyncRecord, ...]:
    """Steps from shared memory that are not written yet, numbered on from the last one."""
    if not written:
        return ()
    last = written[-1]
    times = {sync.time for sync in written}
    found = []
    for one in waiting:
        if one.start / NANOSECONDS in times:
            continue
        try:
            step = last.step + last.ends_step
            last = decoder.again(one.of, last.index + 1, step, one.start, one.end - one.start)
        except KeyError:  # its line could not be read
            break
        found.append(last)
    return tuple(found)


def _of(records: list[Record], cls: type[RecordType]) -> tuple[RecordType, ...]:
    return tuple(record for record in records if isinstance(record, cls))
