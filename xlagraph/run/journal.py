"""The newest stable steps of a process, in shared memory until they are in its record file.

Right after 10,000 traced operations a system call costs 25 us and a store into mapped memory 2,
so capture writes its stable steps in bunches and keeps a bunch, until then, in a file of tmpfs.
That outlives the process: when it was killed, readers on the same host find the steps by the
token in its ``process`` record. Nothing but tmpfs will do: a program that stores into a mapped
file on a disk is killed when the disk is full.

The file is an array of 64-bit numbers: ``MAGIC``, then three for each step, namely the index
of the sync that it repeats, its start and its end (Unix time in ns). The end is stored last;
where it is 0 there is no step.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("/dev/shm")  # noqa: S108 - what is in it belongs to one user, by a random name
PREFIX = "xlagraph-steps-"
MAGIC = 0x31736574732D6778
"""``xg-step1``, read as a little-endian number."""
CELL_BYTES = 8
FIRST = 1
"""The cell of the first step."""
PER_STEP = 3
STEPS = 256
"""Steps that there is room for."""
CELLS = FIRST + PER_STEP * STEPS
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Repeated(NamedTuple):
    """A step that was like an earlier sync."""

    of: int
    """Index of that sync."""
    start: int
    """Unix time in ns."""
    end: int


def new_cells() -> memoryview:
    """Cells in memory of the process's own, where nothing waits."""
    return memoryview(bytearray(CELL_BYTES * CELLS)).cast("q")


def journal_path(token: str) -> Path:
    """Where the journal with this token is kept while its process runs, or was killed."""
    return FOLDER / (PREFIX + token)


def has_journal(token: str) -> bool:
    """Whether a process's newest steps are in shared memory of this host."""
    return bool(_TOKEN.fullmatch(token)) and journal_path(token).is_file()


def read_journal(token: str) -> tuple[Repeated, ...]:
    """Steps that are in shared memory of this host, oldest first; none if there is no journal.

    What stands in record files is not trusted: any other name, or anything but a regular file
    of the right size, is no journal.
    """
    if not _TOKEN.fullmatch(token):
        return ()
    try:
        descriptor = os.open(journal_path(token), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, AttributeError):  # gone, another host, a system without such files
        return ()
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != CELLS * CELL_BYTES:
            return ()
        data = os.read(descriptor, status.st_size)
    finally:
        os.close(descriptor)
    if len(data) != status.st_size:
        return ()
    return _steps(struct.unpack(f"={CELLS}q", data))


def _steps(cells: tuple[int, ...]) -> tuple[Repeated, ...]:
    found = []
    if cells[0] == MAGIC:
        for at in range(FIRST, CELLS, PER_STEP):
            step = Repeated(*cells[at : at + PER_STEP])
            if step.end:
                found.append(step)
    return tuple(found)
