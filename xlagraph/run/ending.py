"""Whether the processes that write a run folder have ended, told from their record files.

A process that ends writes ``END_LINE`` last. One that was killed does not: on this host its
pid tells, on others that nothing was written for a while.
"""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from xlagraph.run.files import open_regular

if TYPE_CHECKING:
    from xlagraph.run.records import ProcessRecord

END_LINE = '{"record":"end"}'
"""Readers skip it, as they do any record type that they do not know."""
QUIET_SECONDS = 3600.0
"""A process of another host is taken for dead when it has written nothing for so long."""


def file_name_part(host: str) -> str:
    """A host's name as the name of a record file has it."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", host) or "host"


def what_is_missing(record: ProcessRecord, *, is_recovered: bool) -> str:
    """What is to be said of a record file without `END_LINE`; empty while its process runs here.

    `is_recovered`: the steps that it had not written yet were found in this host's memory.
    """
    who = f"rank {record.rank}, pid {record.pid} on {record.host}"
    if record.host != socket.gethostname():
        return f"{who}: it still runs or was killed; what it ran last is not in these records"
    if _is_alive(record.pid):
        return ""
    if is_recovered:
        return f"{who}: it was killed; what it had recorded is all here"
    return f"{who}: it was killed; what it ran last may be missing"


def goes_on(folder: Path) -> bool:
    """Whether a process may still write records into a run folder.

    Raises:
        OSError: a record file cannot be read.
    """
    files = folder.glob("records-*.jsonl")
    return any(_goes_on(file) for file in files if file.is_file())  # no pipe, for one


def _goes_on(file: Path) -> bool:
    with open_regular(file) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - len(END_LINE) - 1))
        if stream.read().strip() == END_LINE.encode():
            return False
    host, _, rest = file.name.removeprefix("records-").partition("-")[2].rpartition("-")
    pid = rest.split(".")[0]
    if host == file_name_part(socket.gethostname()) and pid.isdecimal():
        return _is_alive(int(pid))
    return time.time() - file.stat().st_mtime < QUIET_SECONDS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
