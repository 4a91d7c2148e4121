"""Runs modules in several real processes at once: what XLA and Gloo make of them, not this project.

XLA's CPU with its Gloo collectives on the loopback address; see `gloo_worker`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKER = Path(__file__).with_name("gloo_worker.py")
START_SECONDS = 90.0
LIMIT_SECONDS = 15.0
"""After all have compiled; what finishes takes a tenth of a second, or one on a busy machine."""


@dataclass(frozen=True, slots=True)
class Together:
    """What became of processes that ran side by side."""

    end: str
    """``finished``, ``failed`` (a process ended or reported an error) or ``hung``."""
    values: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
    """By process and module the values it gave, as far as it came."""
    errors: tuple[str, ...]
    seconds: float
    """From the moment that all had compiled."""


def run_together(
    modules: Sequence[Sequence[str]], grid: tuple[int, int], limit: float = LIMIT_SECONDS
) -> Together:
    """Runs the modules of each process, one device each.

    Raises:
        RuntimeError: they never began: a module cannot be compiled.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_files:
        task = Path(folder) / "task.json"
        task.write_text(json.dumps({"grid": grid, "modules": modules}))
        port = str(_free_port())
        command = [sys.executable, str(WORKER)]
        workers = [
            subprocess.Popen(
                [*command, str(node), str(len(modules)), port, str(task)],
                stdout=subprocess.PIPE,
                stderr=open_files.enter_context((Path(folder) / f"{node}.log").open("w")),
                env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            )
            for node in range(len(modules))
        ]
        try:
            return _watch(workers, limit, Path(folder))
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
                assert worker.stdout
                worker.stdout.close()


def _watch(workers: list[subprocess.Popen[bytes]], limit: float, folder: Path) -> Together:
    found: list[list[dict[str, object]]] = [[] for _ in workers]
    buffers = [b"" for _ in workers]
    began: float | None = None
    first = time.monotonic()
    while True:
        now = time.monotonic()
        if began is None and all(found):
            began = now
        if all(rows and rows[-1] == {"at": "end"} for rows in found):
            return _together("finished", found, now - (began or now))
        if began is not None and (now - began > limit or _has_failed(workers, found)):
            failed = _has_failed(workers, found)
            return _together("failed" if failed else "hung", found, now - began)
        if began is None and (now - first > START_SECONDS or _has_failed(workers, found)):
            logs = " ".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
            raise RuntimeError(f"the processes did not begin: {logs}")
        streams = [worker.stdout for worker in workers if worker.stdout]
        for stream in select.select(streams, [], [], 0.05)[0]:
            node = streams.index(stream)
            *lines, buffers[node] = (buffers[node] + os.read(stream.fileno(), 65536)).split(b"\n")
            found[node] += [json.loads(line) for line in lines if line.startswith(b"{")]


def _has_failed(
    workers: list[subprocess.Popen[bytes]], found: list[list[dict[str, object]]]
) -> bool:
    ended = any(worker.poll() is not None for worker in workers)
    return ended or any("error" in row for rows in found for row in rows)


def _together(end: str, found: list[list[dict[str, object]]], seconds: float) -> Together:
    values = tuple(
        tuple(tuple(map(tuple, row["values"])) for row in rows if "values" in row)  # type: ignore[call-overload]
        for rows in found
    )
    errors = tuple(str(row["error"]) for rows in found for row in rows if "error" in row)
    return Together(end, values, errors, seconds)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
