"""Choose the run folder: one for all processes of a job, a fresh one for each job.

A job is known by an identifier that its first process puts into the environment and its
children inherit. The folder's ``job`` file holds it, so a second job in the same directory
takes the next free name instead of adding to the first one's records.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from pathlib import Path

from xlagraph.capture.options import Options
from xlagraph.run.remote import is_url

JOB_VARIABLE = "XLAGRAPH_JOB"
DEFAULT_NAME = "xlagraph-run"
_LAUNCHER_JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_JOB_FILE = "job"
_WAIT_SECONDS = 0.02
_WAITS = 10


def ensure_job() -> str:
    """This job's identifier, made and exported to child processes when there is none."""
    job = os.environ.get(JOB_VARIABLE)
    if job:
        return job
    for variable in _LAUNCHER_JOBS:
        launched = os.environ.get(variable)
        # torchrun's default identifier is the word "none", the same for every job.
        if launched and launched != "none":
            job = f"{variable}={launched}"
            break
    else:
        job = uuid.uuid4().hex
    os.environ[JOB_VARIABLE] = job
    return job


def choose_folder(options: Options) -> Path:
    """The local folder to write, which exists afterwards; for a URL, its spool.

    Raises:
        OSError: it cannot be made.
    """
    if is_url(options.path):
        return Path(tempfile.mkdtemp(prefix="xlagraph-spool-"))
    if options.path:
        folder = Path(options.path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    job = ensure_job()
    base = Path.cwd()
    number = 1
    while True:
        folder = base / (DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}")
        if _claim(folder, job):
            return folder
        number += 1


def _claim(folder: Path, job: str) -> bool:
    """Make ``folder`` this job's, or find that it is; False when it is another job's."""
    try:
        folder.mkdir()
    except FileExistsError:
        return _job_of(folder) == job
    (folder / _JOB_FILE).write_text(job + "\n")
    return True


def _job_of(folder: Path) -> str:
    """The folder's job; waits a moment for a sibling that has just made the folder."""
    for _ in range(_WAITS):
        try:
            job = (folder / _JOB_FILE).read_text().strip()
        except OSError:
            job = ""
        if job:
            return job
        time.sleep(_WAIT_SECONDS)
    return ""
