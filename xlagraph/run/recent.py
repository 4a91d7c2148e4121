"""Run folders beside one another: the newest, and those of the same program."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from xlagraph.run.codec import LineDecoder, RecordError
from xlagraph.run.files import open_regular
from xlagraph.run.reader import Run, RunError
from xlagraph.run.records import ProcessRecord
from xlagraph.run.remote import is_url

LONGEST_HEAD = 1_000_000
"""Bytes of a record file's first line that are read."""


class Beside(NamedTuple):
    """A run folder, when its first process began, and the program that it ran."""

    started: float
    """Unix time in seconds."""
    path: Path
    program: str


def newest_run(folder: Path) -> Path:
    """The run folder in `folder` that began last.

    Raises:
        RunError: there is none.
    """
    found = runs_in(folder)
    if not found:
        raise RunError("no run folder here: `XLAGRAPH=1 python train.py` writes one")
    return found[-1].path


def runs_in(folder: Path) -> list[Beside]:
    """The run folders directly in `folder`, oldest first; reads a line of each record file."""
    found = []
    for path in {file.parent for file in folder.glob("*/records-*.jsonl")}:
        heads = [head for file in path.glob("records-*.jsonl") if (head := _head(file))]
        if heads:
            first = min(heads, key=lambda head: head.started)
            found.append(Beside(first.started, path, _program(first)))
    return sorted(found)


def before_and_after(run: Run) -> tuple[Beside | None, Beside | None]:
    """The last earlier and the newest later run of the same program in the same folder."""
    if is_url(run.name) or not run.processes:
        return None, None
    first = min((process.record for process in run.processes), key=lambda head: head.started)
    same = [one for one in runs_in(run.path.parent) if one.program == _program(first)]
    earlier = [one for one in same if one.started < first.started]
    later = [one for one in same if one.started > first.started]
    return earlier[-1] if earlier else None, later[-1] if later else None


def _program(record: ProcessRecord) -> str:
    return record.argv[0] if record.argv else ""


def _head(file: Path) -> ProcessRecord | None:
    """The first line of a record file; None where it is none that can be read."""
    try:
        with open_regular(file) as stream:
            record = LineDecoder().decode(stream.readline(LONGEST_HEAD).decode())
    except (OSError, RecordError, UnicodeDecodeError):
        return None
    return record if isinstance(record, ProcessRecord) else None
