"""The name of a job, which its first process chooses and its children inherit."""

from __future__ import annotations

import os

JOB_VARIABLE = "XLAGRAPH_JOB"
PROGRAM_VARIABLE = "XLAGRAPH_PROGRAM"
"""The pid of the program that ``xlagraph run`` started: it says so if nothing was captured."""
_LAUNCHER_JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


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
        job = os.urandom(16).hex()
    os.environ[JOB_VARIABLE] = job
    return job
