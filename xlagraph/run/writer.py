"""Append records and store graphs in a run folder, within a bound on bytes.

Each ``write`` is one of whole lines to a file opened for appending: what was written
survives ``kill -9``, and processes that share a folder never share a file. Graphs are named
by digest and put in place by an atomic rename, so equal graphs of many ranks are stored once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from xlagraph.run.codec import SyncEncoder, SyncFacts, encode
from xlagraph.run.digest import digest_graph
from xlagraph.run.ending import END_LINE, file_name_part
from xlagraph.run.files import FOLDER_MODE, create, write_new
from xlagraph.run.records import LIMIT, NoteRecord, ProcessRecord, Record, SyncRecord

GRAPHS = "graphs"
GRAPH_SUFFIX = ".hlo.zst"
PROTO_SUFFIX = ".hlo.pb.zst"
"""Of the same graph as a protobuf, which has the whole Python stacks of its instructions."""
HIT_SHARE = 0.5
"""Cache hits stop being recorded at this share of the limit: compiles matter more."""


def record_file_name(process: ProcessRecord) -> str:
    """The name of the record file of ``process``, unlike any other process's."""
    host = file_name_part(process.host)
    return f"records-{process.rank}-{host}-{process.pid}.jsonl"


@dataclass(slots=True)
class Dropped:
    """What the bound on bytes kept out of the folder."""

    syncs: int = 0
    graphs: int = 0
    other: int = 0
    stacks: int = 0
    """Graphs whose text is stored, but not the protobuf with the Python stacks."""

    def __bool__(self) -> bool:
        return bool(self.syncs or self.graphs or self.other or self.stacks)

    def __str__(self) -> str:
        stacks = f", the Python stacks of {self.stacks} graphs" if self.stacks else ""
        return f"{self.syncs} syncs, {self.graphs} graphs, {self.other} other records{stacks}"


class RunWriter:
    """One process's part of a run folder.

    Raises:
        OSError: from the constructor, when the folder cannot be made or written. Later
            failures to write (disk full) raise once and close the writer.
    """

    def __init__(self, folder: Path, process: ProcessRecord, max_bytes: int) -> None:
        self.folder = folder
        self.process = process
        self.max_bytes = max_bytes
        self.written = 0
        self.dropped = Dropped()
        self._full_noted = False
        self._encoder = SyncEncoder()
        self._compressor = zstandard.ZstdCompressor(level=3)
        (folder / GRAPHS).mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self.file = self._fresh_name()
        self._descriptor: int | None = create(self.file, os.O_APPEND)
        self._append_text(encode(process))

    def _fresh_name(self) -> Path:
        """A pid comes back after a reboot or in another container: never share a file."""
        path = self.folder / record_file_name(self.process)
        number = 2
        while path.exists():
            stem = record_file_name(self.process).removesuffix(".jsonl")
            path = self.folder / f"{stem}.{number}.jsonl"
            number += 1
        return path

    @property
    def closed(self) -> bool:
        """True after ``close`` or after a write failed."""
        return self._descriptor is None

    def _append_text(self, lines: str) -> None:
        self.append((lines + "\n").encode())

    def append(self, data: bytes) -> None:
        """Append whole lines, whatever the bound.

        Raises:
            OSError: the disk is full or gone; the writer is closed then.
        """
        if self._descriptor is None:
            return
        try:
            done = os.write(self._descriptor, data)
        except OSError:
            self.abandon()
            raise
        self.written += done
        if done != len(data):
            self.abandon()
            raise OSError(errno.ENOSPC, "short write", str(self.file))

    def write(self, record: Record) -> None:
        """Append ``record``, or count it as dropped when the folder's bound is reached.

        Raises:
            OSError: the disk is full or gone; the writer is closed then.
        """
        if isinstance(record, SyncRecord):
            if self._has_room(1.0, record.index):
                self._append_text(self._encoder.encode(record))
            else:
                self.dropped.syncs += 1
        elif self._has_room(1.0, 0):
            self._append_text(encode(record))
        else:
            self.dropped.other += 1

    def write_plain(self, sync: SyncFacts, index: int, step: int) -> None:
        """The same for a sync without live tensors and buckets, which is to cost little.

        Raises:
            OSError: the disk is full or gone; the writer is closed then.
        """
        if self._has_room(1.0 if sync.compile_seconds else HIT_SHARE, index):
            self._append_text(self._encoder.encode_plain(sync, index, step))
        else:
            self.dropped.syncs += 1

    def append_hits(self, lines: Sequence[bytes], first: int) -> None:
        """Append the lines of cache hits, the first of index ``first``; drop those past the bound.

        Raises:
            OSError: the disk is full or gone; the writer is closed then.
        """
        room = self.max_bytes * HIT_SHARE - self.written
        kept = lines[: max(0, int(room // len(lines[0])))]
        if kept:
            self.append(b"".join(kept))
        if len(kept) < len(lines):
            self.dropped.syncs += len(lines) - len(kept)
            self._note_full(first + len(kept))

    def _has_room(self, share: float, sync: int) -> bool:
        if self.written < self.max_bytes * share:
            return True
        self._note_full(sync)
        return False

    def _note_full(self, sync: int) -> None:
        if not self._full_noted:
            self._full_noted = True
            detail = f"{self.written} of {self.max_bytes} bytes written: cache hits are dropped"
            self._append_text(encode(NoteRecord(sync, LIMIT, detail)))

    def note_end(self, note: NoteRecord) -> None:
        """Append a last note, whatever the bound.

        Raises:
            OSError: the disk is full or gone.
        """
        self._append_text(encode(note))

    def store_graph(self, text: bytes, proto: bytes | None = None) -> str:
        """Store a module's text once; its digest, also when the bound kept it out.

        ``proto``: the same module as a protobuf, to be stored beside it.

        Raises:
            OSError: the disk is full or gone.
        """
        digest = digest_graph(text, proto)
        if not self._store(digest + GRAPH_SUFFIX, text):
            self.dropped.graphs += 1
        elif proto is not None and not self._store(digest + PROTO_SUFFIX, proto):
            self.dropped.stacks += 1
        return digest

    def _store(self, name: str, data: bytes) -> bool:
        """Put a file of graphs in place unless it is there; False when the bound keeps it out."""
        path = self.folder / GRAPHS / name
        if path.exists() or self.closed:
            return True
        packed = self._compressor.compress(data)
        if self.written + len(packed) > self.max_bytes:
            return False
        partial = path.with_name(f".{name}.{os.getpid()}.{id(self):x}")
        try:
            write_new(partial, packed)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        self.written += len(packed)
        return True

    def close(self) -> None:
        """End the file; does nothing the second time.

        Raises:
            OSError: the disk is full or gone.
        """
        self._append_text(END_LINE)
        self.abandon()

    def abandon(self) -> None:
        """Leave the file as it is: after a failure, or to the parent of a forked child."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
