"""Choose the run folder: one for all processes of a job, a fresh one for each job.

A job is known by an identifier that its first process puts into the environment and its
children inherit; the folder's ``job`` file holds it. Processes that were started by other
means (on several hosts, without a launcher's identifier) have different ones: a folder that
they were all given is theirs together while any of them runs. To a run that has ended no
other job adds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from importlib.machinery import BuiltinImporter
from itertools import count
from pathlib import Path

from xlagraph.capture.host.inherited import ensure_job
from xlagraph.capture.host.options import Options
from xlagraph.capture.host.say import say
from xlagraph.run.ending import goes_on
from xlagraph.run.files import FOLDER_MODE, open_regular, write_new
from xlagraph.run.remote import is_url

DEFAULT_NAME = "xlagraph-run"
_JOB_FILE = "job"
_MAX_JOB = 4096
_WAIT_SECONDS = 0.02
_WAITS = 10


def choose_folder(options: Options) -> Path:
    """The local folder to write, which exists afterwards; for a URL, its spool.

    Where another run is, the next free name is taken; a line says so if the name was asked for.

    Raises:
        OSError: it cannot be made.
    """
    if is_url(options.path):
        return Path(tempfile.mkdtemp(prefix="xlagraph-spool-"))
    job = ensure_job()
    first = Path(options.path or DEFAULT_NAME).absolute()
    for number in count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        if _job_of(folder) == job:
            return folder
        if options.path and _has_records(folder) and goes_on(folder):
            return folder
        if _claim(folder, job, new=not options.path):
            if options.path and number > 1:
                say(f"{first} holds another run: this one goes to {folder}")
            return folder
    raise AssertionError("unreachable")


def is_taken(folder: Path, job: str) -> bool:
    """Whether a folder holds the run of another job, which has ended.

    Raises:
        OSError: the folder cannot be read.
    """
    return _has_records(folder) and _job_of(folder) != job and not goes_on(folder)


def tell_if_nothing(target: str) -> None:
    """At the end of what ``xlagraph run`` started: neither it nor its children were captured.

    Where Python found no program, it said so, and its main module has no loader of a file.

    Raises:
        OSError: a folder cannot be read.
    """
    path = os.environ.get("XLAGRAPH_DIR", "")
    loader = getattr(sys.modules.get("__main__"), "__loader__", None)
    was_started = loader is not BuiltinImporter
    if is_url(path) or not was_started:
        return
    job = ensure_job()
    first = Path(path or DEFAULT_NAME).absolute()
    folders = [first, *first.parent.glob(f"{first.name}-*")]
    if not any(_has_records(folder) and _job_of(folder) == job for folder in folders):
        say(f"nothing captured: the program never imported {target}")


def _has_records(folder: Path) -> bool:
    return any(folder.glob("records-*.jsonl"))


def _claim(folder: Path, job: str, *, new: bool) -> bool:
    """Make a folder this job's if no run is in it; nor anything else, if it is to be new."""
    there = {path.name for path in folder.iterdir()}
    if _has_records(folder) or (new and there and _JOB_FILE not in there):
        return False
    file = folder / _JOB_FILE
    data = f"{job}\n".encode(errors="replace")
    try:
        write_new(file, data)
    except FileExistsError:
        if new:
            return _job_of(folder) == job
        # In the folder that was asked for: what another job, or a link, says there goes.
        mine = file.with_name(f".{_JOB_FILE}-{os.getpid()}")
        write_new(mine, data)
        mine.replace(file)
    return True


def _job_of(folder: Path) -> str:
    """The folder's job, ``""`` if none; waits a moment for a sibling that has just made it."""
    for _ in range(_WAITS):
        try:
            with open_regular(folder / _JOB_FILE, follow=False) as file:
                job = file.read(_MAX_JOB).decode(errors="replace").strip()
        except OSError:
            return ""
        if job:
            return job
        time.sleep(_WAIT_SECONDS)
    return ""
