"""What a process inherits from the one that started it: the job's name, and a dump not its own.

Loaded at interpreter start, so nothing is imported here that is not loaded by then.
"""

from __future__ import annotations

import os

JOB_VARIABLE = "XLAGRAPH_JOB"
PROGRAM_VARIABLE = "XLAGRAPH_PROGRAM"
"""The pid of the program that ``xlagraph run`` started: it says so if nothing was captured."""
MARK = "/xlagraph-dump"
"""Stands in whatever variable points to a process's private dump; the .pth file looks for it."""
OVERRIDES = ["--xla_dump_hlo_module_re=.*", "--xla_dump_hlo_pass_re="]
"""Flags that may stand before the one with the mark, or before `FORMS`."""
FORMS = ["--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
"""Flags that may stand before the one with the mark; asked for protos alone, XLA writes no text."""
OFF = ("", "0", "no", "false", "off")
"""What switches capture, or an option of it, off."""
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


def drop_dump() -> None:
    """Take out the variables of a parent process's private dump."""
    flags = os.environ.get("XLA_FLAGS", "").split(" ")
    for at, flag in enumerate(flags):
        if MARK in flag:
            first = at
            for ours in (FORMS, OVERRIDES):
                if flags[max(first - len(ours), 0) : first] == ours:
                    first -= len(ours)
            del flags[first : at + 1]
            os.environ["XLA_FLAGS"] = " ".join(flags)
            if not flags:
                del os.environ["XLA_FLAGS"]
            break
    if MARK in os.environ.get("PT_XLA_DEBUG_FILE", ""):
        del os.environ["PT_XLA_DEBUG_FILE"]
        os.environ.pop("PT_XLA_DEBUG_LEVEL", None)  # the two are set together
