"""Many processes write one run folder, or one bucket, at once; then all of it is read back.

Each process writes its own record file, the graphs that all share, and one graph of its own; one
in sixteen is killed in the middle. Nothing of the others may be lost, each graph is stored once and
whole, and of those killed it must be said that their ends are missing::

    python benchmarks/writers.py /tmp/run --processes 256
    python benchmarks/writers.py s3://bucket/run --processes 256

With ``s3://`` the usual AWS variables name the store (``AWS_ENDPOINT_URL`` for a server of one's
own); the writers put their files as a capture does, from a local spool.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from xlagraph.run import remote
from xlagraph.run.reader import read_run
from xlagraph.run.records import FORMAT_VERSION, NO_END, GraphRecord, ProcessRecord, SyncRecord
from xlagraph.run.writer import RunWriter

SHARED = 8
STEPS = 20
ONE_KILLED_IN = 16
TEXT = "HloModule shared_{}\nENTRY e {{\n  ROOT p = f32[{}] parameter(0)\n}}\n" + "// text\n" * 4000


def graph(number: int) -> bytes:
    """One of the graphs; numbers from SHARED on are each a process's own."""
    return TEXT.format(number, number + 1).encode()


def is_killed(rank: int) -> bool:
    """Whether a process does not come to its end."""
    return rank % ONE_KILLED_IN == ONE_KILLED_IN - 1


def write(target: str, rank: int, ranks: int) -> None:
    """What one process does."""
    spooled = remote.is_url(target)
    folder = Path(tempfile.mkdtemp(prefix="xlagraph-writers-")) if spooled else Path(target)
    host = f"host{rank // 8}"
    record = ProcessRecord(FORMAT_VERSION, rank, ranks, host, 1000 + rank, 1.0, (), 1, ())
    writer = RunWriter(folder, record, 1 << 30)
    spool = remote.Spool(folder, target, print) if spooled else None
    for step in range(STEPS):
        number = step if step < SHARED else SHARED + rank
        text = graph(number)
        digest = writer.store_graph(text)
        is_new = step <= SHARED
        outcome = "compile" if is_new else "hit"
        writer.write(
            SyncRecord(
                index=step, step=step, rank=rank, time=float(step), seconds=0.1, kind="step",
                entry="sync", outcome=outcome, compile_seconds=float(is_new), graphs=(digest,),
                graph_is_inferred=False, fingerprint=(number,), call_site=(), live_tensors=(),
                buckets=(),
            )
        )  # fmt: skip
        if is_new:
            writer.write(GraphRecord(digest, step, "shared", len(text), (), (), ()))
        if step == STEPS // 2 and is_killed(rank):
            if spool:
                spool._push()  # noqa: SLF001 - what the period would have put by then
            os.kill(os.getpid(), signal.SIGKILL)
    writer.close()
    if spool:
        spool.close()


def check(target: str, ranks: int) -> list[str]:
    """What is wrong with the run that they wrote."""
    run = read_run(target)
    wrong = []
    if len(run.processes) != ranks:
        wrong.append(f"{len(run.processes)} of {ranks} processes")
    for process in run.processes:
        rank, killed = process.record.rank, is_killed(process.record.rank)
        wanted = STEPS // 2 + 1 if killed else STEPS
        if len(process.syncs) != wanted or process.unread_lines:
            wrong.append(f"rank {rank}: {len(process.syncs)} of {wanted} syncs")
        if any(note.what == NO_END for note in process.notes) != killed:
            wrong.append(f"rank {rank}: its end is {'not ' if killed else ''}said to be missing")
    digests = run.digests()
    if len(digests) != SHARED + ranks:
        wrong.append(f"{len(digests)} of {SHARED + ranks} graphs")
    known = {graph(number) for number in range(SHARED + ranks)}
    wrong += [f"graph {d}" for d in digests if run.graph_text(d).encode() not in known]
    return wrong


def main() -> int:
    """Starts the processes, waits, checks; 1 if something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--processes", type=int, default=256)
    arguments = parser.parse_args()
    if remote.is_url(arguments.target):
        import s3fs  # noqa: F401 - once, not in each process
    context = multiprocessing.get_context("fork")
    ranks = arguments.processes
    began = time.monotonic()
    started = [
        context.Process(target=write, args=(arguments.target, rank, ranks)) for rank in range(ranks)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    written = time.monotonic() - began
    failed = [
        rank
        for rank, process in enumerate(started)
        if process.exitcode != (-signal.SIGKILL if is_killed(rank) else 0)
    ]
    wrong = [f"rank {rank} failed" for rank in failed] + check(arguments.target, ranks)
    print(f"{ranks} processes wrote {arguments.target} in {written:.1f} s; wrong: {len(wrong)}")
    for line in wrong[:20]:
        print(f"  {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
