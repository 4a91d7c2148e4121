"""Files that are opened with care: nothing blocks, nothing is followed, others may not read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

import zstandard

from xlagraph.limits import check_size

FOLDER_MODE = 0o700
"""What is recorded shows arguments, paths and names of a program: to its user only."""
_FILE_MODE = 0o600
_CHUNK = 1 << 12
"""Compressed bytes unfolded at once: zstd gives all that they hold, at most 32 kB for each."""
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | _CLOSED
_ITSELF = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: Path, *, follow: bool = True) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is something else, such as a pipe, which would block. Or
            it is a link, and these are not to be followed.
    """
    descriptor = os.open(path, os.O_RDONLY | _AT_ONCE | (0 if follow else _ITSELF))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def unfold(packed: bytes, name: str) -> bytes:
    """What a zstd file holds, if that is no more than one input may.

    Raises:
        TooLargeError: it is more; known before the memory is taken.
        zstandard.ZstdError: it is damaged.
    """
    check_size(name, zstandard.frame_content_size(packed))  # -1 where it is not said
    unfolder = zstandard.ZstdDecompressor().decompressobj()
    pieces, size = [], 0
    for at in range(0, len(packed), _CHUNK):
        pieces.append(unfolder.decompress(packed[at : at + _CHUNK]))
        size += len(pieces[-1])
        check_size(name, size)
        if unfolder.eof:
            return b"".join(pieces)
    raise zstandard.ZstdError("the end is missing")


def create(path: Path, flags: int = 0) -> int:
    """Make a file that was not there, for writing; its descriptor.

    Raises:
        OSError: there is something of that name, a link for example, or it cannot be made.
    """
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ITSELF | _CLOSED
    return os.open(path, new | flags, _FILE_MODE)


def write_new(path: Path, data: bytes) -> None:
    """Make a file that was not there, with this in it.

    Raises:
        OSError: as `create`.
    """
    with os.fdopen(create(path), "wb") as file:
        file.write(data)
