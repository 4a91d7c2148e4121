"""Many processes write one run: nothing is lost, and what a kill took is said."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from repository import script

from xlagraph.run import journal
from xlagraph.run.reader import read_run
from xlagraph.run.records import FORMAT_VERSION, NO_END, NoteRecord, ProcessRecord
from xlagraph.run.remote import Spool
from xlagraph.run.writer import RunWriter

writers = script("benchmarks/writers.py")
HERE = socket.gethostname()


def test_processes_that_write_one_folder_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, writers.__file__, str(tmp_path / "run"), "--processes", "32"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong: 0" in done.stdout


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("host", "pid", "said"),
    [
        ("elsewhere", 7, "it still runs or was killed; what it ran last is not in these records"),
        (HERE, 0, "it was killed; what it ran last may be missing"),
        (HERE, os.getpid(), ""),
    ],
    ids=["another host", "killed", "running"],
)
def test_records_without_an_end(tmp_path: Path, host: str, pid: int, said: str) -> None:
    pid = pid or dead_pid()
    record = ProcessRecord(FORMAT_VERSION, 3, 4, host, pid, 1.0, (), 1, ())
    writer = RunWriter(tmp_path, record, 1 << 20)
    writer.write(NoteRecord(0, "said", "before"))
    writer.abandon()
    (process,) = read_run(tmp_path).processes
    told = [note.detail for note in process.notes if note.what == NO_END]
    assert told == ([f"rank 3, pid {pid} on {host}: {said}"] if said else [])


def test_steps_that_are_still_in_memory_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FOLDER", tmp_path)
    token = "0" * 32
    (tmp_path / (journal.PREFIX + token)).write_bytes(bytes(journal.CELLS * journal.CELL_BYTES))
    record = ProcessRecord(FORMAT_VERSION, 0, 1, HERE, dead_pid(), 1.0, (), 1, (), journal=token)
    RunWriter(tmp_path / "run", record, 1 << 20).abandon()
    (process,) = read_run(tmp_path / "run").processes
    assert [note.detail.partition("; ")[2] for note in process.notes] == [
        "what it had recorded is all here"
    ]


def test_a_graph_that_is_there_is_not_put_again(tmp_path: Path) -> None:
    """But one that another process has put in part is, and so is every record file."""
    url = f"file://{tmp_path}/store"
    put = []
    for rank in range(3):
        record = ProcessRecord(FORMAT_VERSION, rank, 3, "h", rank, 1.0, (), 1, ())
        writer = RunWriter(tmp_path / f"spool{rank}", record, 1 << 20)
        digest = writer.store_graph(b"HloModule m" * 999)
        spool = Spool(tmp_path / f"spool{rank}", url, pytest.fail)
        files, real = spool._filesystem, spool._filesystem.put_file

        class Counting:
            def __getattr__(self, name, files=files):
                return getattr(files, name)

            def put_file(self, source, target, real=real):
                put.append(Path(target).name)
                real(source, target)

        spool._filesystem = Counting()
        if rank == 2:
            graph = tmp_path / "store" / "graphs" / f"{digest}.hlo.zst"
            graph.write_bytes(graph.read_bytes()[:9])
        writer.close()
        spool.close()
    assert put.count(f"{digest}.hlo.zst") == 2
    run = read_run(url)
    assert run.graph_text(digest) == "HloModule m" * 999
    assert [process.record.rank for process in run.processes] == [0, 1, 2]
    assert not any(process.notes for process in run.processes)
