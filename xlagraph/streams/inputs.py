"""What a user gives as a stream log: a log, or a profile with what was taken with it."""

from __future__ import annotations

from pathlib import Path

from xlagraph.content import Content
from xlagraph.errors import SpecError
from xlagraph.streams.log import Log


def open_log(path: str, execution_trace: str = "", memory: str = "") -> Log:
    """Opens a log, or makes one of a Kineto trace with its ExecutionTrace.

    Raises:
        InputError: a line or a value is not what it should be.
        SpecError: a file cannot be read, or is not enough.
    """
    if execution_trace:
        from xlagraph.streams.traces.convert import log_of_profile

        return log_of_profile(path, execution_trace, memory)
    if Path(path).is_dir():
        raise SpecError(f"{path}: a folder, no stream log: `xlagraph explain` explains a run")
    if memory:
        raise SpecError(f"{memory}: a memory snapshot goes with a trace and its --execution-trace")
    if _is_profile(path):
        raise SpecError(
            f"{path}: a Kineto trace, which says what ran and not what it accessed: give the "
            "ExecutionTrace that was taken with it, by --execution-trace"
        )
    return Log.open(path)


def is_log(path: str) -> bool:
    """Whether an input is a stream log or a profile, and no run or module.

    Raises:
        SpecError: the file cannot be read.
    """
    if path == "-":
        return True
    return Path(path).is_file() and Content(path).text(0, 4096).lstrip().startswith("{")


def _is_profile(path: str) -> bool:
    """Whether a file is a Chrome trace, as profilers write them."""
    return path != "-" and Content(path).data.find(b'"traceEvents"') >= 0
