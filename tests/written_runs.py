"""Runs of given syncs, written as a capture would and explained."""

from __future__ import annotations

from xlagraph.run.reader import read_run
from xlagraph.run.records import (
    FORMAT_VERSION,
    Frame,
    GraphRecord,
    NoteRecord,
    ProcessRecord,
    SourceRecord,
    SyncRecord,
)
from xlagraph.run.writer import RunWriter
from xlagraph.runs.explain import explain_run


def write(folder, *plans, notes=(), tensors=None, program=()):
    """A run: for each rank the syncs, each a line of the program and a module, or None: a hit.

    A third part, ``value``, makes one a read within a step.
    `program`: the lines of train.py, from the first on.
    """
    for rank, plan in enumerate(plans):
        process = ProcessRecord(FORMAT_VERSION, rank, len(plans), "h", 10 + rank, 1.0, (), 1, ())
        writer = RunWriter(folder, process, 1 << 30)
        if program:
            writer.write(SourceRecord("train.py", 1, tuple(program)))
        known = set()
        for note in notes:
            writer.write(NoteRecord(0, note, ""))
        step = 0
        for index, (line, module, *kind) in enumerate(plan):
            digest = writer.store_graph(module.encode()) if module else ""
            is_new = bool(digest) and digest not in known
            known.add(digest)
            sync = SyncRecord(
                index=index,
                step=step,
                rank=rank,
                time=100.0 + index + rank / 8,
                seconds=0.01,
                kind=kind[0] if kind else "step",
                entry="item" if kind else "sync",
                outcome="compile" if is_new else "hit",
                compile_seconds=0.5 if is_new else 0.0,
                graphs=(digest,) if digest else (),
                graph_is_inferred=not is_new,
                fingerprint=(len(module or "") or 7,),
                call_site=(Frame("train.py", line, "main"),),
                live_tensors=(),
                buckets=(),
            )
            writer.write(sync)
            step += sync.ends_step
            if is_new:
                known_tensors = (tensors or {}).get(module, ((), ()))
                writer.write(GraphRecord(digest, index, "m", 1, (), *known_tensors))
        writer.close()
    return explain_run(read_run(folder))
