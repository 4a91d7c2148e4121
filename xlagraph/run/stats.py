"""Count what a run recorded: steps, compiles, graphs, seconds of compiling, by process."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from xlagraph.run.reader import Process, Run


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """One process's counts."""

    rank: int
    host: str
    pid: int
    steps: int
    compiles: int
    graphs: int
    compile_seconds: float
    unread_lines: int


@dataclass(frozen=True, slots=True)
class RunStats:
    """A run's counts; steps are those of the process with most."""

    processes: tuple[ProcessStats, ...]
    steps: int
    compiles: int
    graphs: int
    compile_seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON, under the fields' own names."""
        return asdict(self)


def count_run(run: Run) -> RunStats:
    """The counts of ``run``."""
    rows = tuple(_count(process) for process in run.processes)
    notes = [
        f"rank {process.record.rank}: {note.what}: {note.detail}"
        for process in run.processes
        for note in process.notes
    ]
    notes += [f"killed while compiling: {path.name}" for path in run.unfinished()]
    digests = {graph.digest for process in run.processes for graph in process.graphs}
    return RunStats(
        processes=rows,
        steps=max((row.steps for row in rows), default=0),
        compiles=sum(row.compiles for row in rows),
        graphs=len(digests),
        compile_seconds=sum(row.compile_seconds for row in rows),
        notes=tuple(notes),
    )


def _count(process: Process) -> ProcessStats:
    compiled = [sync for sync in process.syncs if sync.outcome == "compile"]
    return ProcessStats(
        rank=process.record.rank,
        host=process.record.host,
        pid=process.record.pid,
        steps=sum(sync.ends_step for sync in process.syncs),
        compiles=sum(max(len(sync.graphs), 1) for sync in compiled),
        graphs=len({graph.digest for graph in process.graphs}),
        compile_seconds=sum(sync.compile_seconds for sync in process.syncs),
        unread_lines=process.unread_lines,
    )
