"""The bytes of an input, decompressed, as one memory map: nothing is read that is not used."""

from __future__ import annotations

import errno
import glob
import io
import mmap
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xlagraph.errors import SpecError
from xlagraph.limits import check_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

_CHUNK = 1 << 20
_ZSTD_CHUNK = 1 << 12
"""Compressed bytes unfolded at once: zstd gives all that they hold, at most 32 kB for each."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_PIPE_SECONDS = 5.0
"""So long a named pipe is waited for that nobody writes to."""
_POLL_SECONDS = 0.05


class _DamagedError(Exception):
    """Compressed data ends too early, or is not what it should be."""


class Content:
    """An input's bytes, opened at first use.

    Plain files are mapped; compressed files and standard input go through a temporary file
    that has no name, so that memory stays bounded and every slice is at hand.
    """

    def __init__(self, name: str, stream: IO[bytes] | None = None):
        self.name = name
        self.damage = ""
        """Why the end of a compressed input is missing, or ``""``."""
        self._stream = stream
        self._map: mmap.mmap | bytes | None = None

    @property
    def data(self) -> mmap.mmap | bytes:
        """The whole input; slices copy only what they cut.

        Raises:
            SpecError: the file cannot be read.
            TooLargeError: it holds, or unfolds to, more than the limit.
        """
        if self._map is None:
            try:
                self._map = self._open()
            except OSError as error:
                reason = error.strerror or str(error)
                if isinstance(error, FileNotFoundError):
                    said = f"{self.name}: no such file or folder{meant(self.name)}"
                    raise SpecError(said) from None
                raise SpecError(f"{self.name}: cannot be read: {reason}") from None
        return self._map

    def text(self, start: int, stop: int) -> str:
        """A slice as text; bytes that are not UTF-8 become U+FFFD."""
        if not start and self.data[: len(_BOM)] == _BOM:
            start = len(_BOM)
        with memoryview(self.data) as whole, whole[start:stop] as piece:  # no copy: it may be large
            return str(piece, "utf-8", "replace")

    def lines_between(self, start: int, stop: int) -> int:
        """Number of line feeds in a slice, counted chunk by chunk."""
        data = self.data
        chunks = range(start, stop, _CHUNK)
        return sum(data[at : min(at + _CHUNK, stop)].count(b"\n") for at in chunks)

    def _open(self) -> mmap.mmap | bytes:
        if self._stream is not None:
            return self._spool(self._stream)
        path = Path(self.name)
        if path.is_fifo():
            with io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as pipe:
                return self._spool(io.BufferedReader(_Prefixed(_first_byte(pipe), pipe)))
        with path.open("rb") as file:
            if file.seekable():
                check_size(self.name, os.fstat(file.fileno()).st_size)
                magic = file.read(4)
                file.seek(0)
                if magic[:2] != _GZIP_MAGIC and magic != _ZSTD_MAGIC:
                    return _mapped(file)
            return self._spool(file)

    def _spool(self, stream: IO[bytes]) -> mmap.mmap | bytes:
        import tempfile

        with tempfile.TemporaryFile() as spool:
            size = 0
            for chunk in self._decompressed(stream):
                size += len(chunk)
                check_size(self.name, size)
                spool.write(chunk)
            spool.flush()
            return _mapped(spool)

    def _decompressed(self, stream: IO[bytes]) -> Iterator[bytes]:
        magic = stream.read(4)
        whole = io.BufferedReader(_Prefixed(magic, stream), _CHUNK)
        chunks = _chunks(whole)
        if magic[:2] == _GZIP_MAGIC:
            chunks = _unzipped(whole)
        elif magic == _ZSTD_MAGIC:
            chunks = _unfolded(whole)
        try:
            yield from chunks
        except _DamagedError as error:
            self.damage = f"compressed data is damaged or cut off: {error}"


def _first_byte(pipe: io.FileIO) -> bytes:
    """Waits for the first byte in a pipe that was opened without blocking; it blocks from then on.

    Raises:
        OSError: nobody writes to it.
    """
    until = time.monotonic() + _PIPE_SECONDS
    while True:
        first = pipe.read(1)  # None: there is a writer, who has not written yet
        if first:
            os.set_blocking(pipe.fileno(), True)
            return first
        if first is not None and time.monotonic() > until:
            raise OSError(errno.EPIPE, "a pipe that nobody writes to")
        time.sleep(_POLL_SECONDS)


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _unzipped(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Unfolds gzip members; what stands before damage is given before the error.

    Raises:
        _DamagedError: the data is cut off, or damaged.
    """
    import zlib

    unfolder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        while pending := stream.read(_CHUNK):
            while pending.strip(b"\0"):
                if unfolder.eof:
                    unfolder = zlib.decompressobj(zlib.MAX_WBITS | 16)
                yield unfolder.decompress(pending, _CHUNK)
                pending = unfolder.unused_data if unfolder.eof else unfolder.unconsumed_tail
    except zlib.error as error:
        raise _DamagedError(str(error)) from None
    if not unfolder.eof:
        raise _DamagedError("the end is missing")


def _unfolded(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Unfolds zstd frames; what stands before damage is given before the error.

    Raises:
        _DamagedError: the data is cut off, or damaged.
    """
    import zstandard

    unfolder = zstandard.ZstdDecompressor().decompressobj()
    try:
        while pending := stream.read(_ZSTD_CHUNK):
            while pending:
                if unfolder.eof:
                    unfolder = zstandard.ZstdDecompressor().decompressobj()
                yield unfolder.decompress(pending)
                pending = unfolder.unused_data if unfolder.eof else b""
    except zstandard.ZstdError as error:
        raise _DamagedError(str(error)) from None
    if not unfolder.eof:
        raise _DamagedError("the end is missing")


class _Prefixed(io.RawIOBase):
    """A stream with some bytes put back in front."""

    def __init__(self, prefix: bytes, rest: IO[bytes]):
        self._prefix = prefix
        self._rest = rest

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fills `buffer` from the prefix, then from the stream."""
        view = memoryview(buffer).cast("B")
        chunk = self._prefix[: len(view)]
        if chunk:
            self._prefix = self._prefix[len(chunk) :]
        else:
            chunk = self._rest.read(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)


def _mapped(file: IO[bytes]) -> mmap.mmap | bytes:
    """Maps a file; an empty one cannot be mapped."""
    size = file.seek(0, io.SEEK_END)
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


@cache
def standard_input() -> Content:
    """Standard input, kept for all the entries that are cut from it."""
    return Content("<stdin>", sys.stdin.buffer)


def meant(name: str) -> str:
    """What may have been meant by a file that is not there: torch_xla appends a rank's number."""
    path = Path(name)
    ranked = sorted(p for p in path.parent.glob(f"{glob.escape(path.name)}.*") if p.is_file())
    return f"; did you mean {' or '.join(map(str, ranked[:3]))}?" if path.name and ranked else ""
