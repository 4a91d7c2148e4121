"""What a capture knows of a module, put into the form that rules ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Context
from xlagraph.message import SourceLine
from xlagraph.run.legacy import tensor_of
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Member
    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame, GraphRecord, SyncRecord


def context_of(process: Process, graph: GraphRecord) -> Context:
    """The context of a graph: of the sync that compiled it, in its process."""
    sync = process.sync_at(graph.sync)
    if sync is None:
        return Context(key=dict(graph.key))
    live = sync.live_tensors
    created = {t.output: own_frame(t.created) for t in live}
    return Context(
        parameters=_tensors((p.index, p.name) for p in graph.parameters),
        outputs=_tensors((*enumerate(graph.outputs), *((t.output, t.name) for t in live))),
        created={output: line for output, line in created.items() if line},
        holders={t.output: t.holder for t in live if t.holder},
        sync_kind=sync.kind,
        call_site=own_frame(sync.call_site),
        flushed=_flushed(process, sync),
        waiting=tuple(tensor_of(name) for bucket in sync.buckets for name in bucket.tensors),
        key=dict(graph.key) | ({"ir_nodes": str(sync.fingerprint[0])} if sync.fingerprint else {}),
    )


def own_frame(frames: Sequence[Frame]) -> SourceLine | None:
    """The innermost frame of the program itself, else the innermost."""
    lines = [SourceLine(frame.file, frame.line) for frame in frames]
    return next((line for line in lines if not line.is_library), next(iter(lines), None))


def _tensors(named: Iterable[tuple[int, str]]) -> dict[int, Tensor]:
    found = {k: tensor_of(name) for k, name in named if name}
    return {k: tensor for k, tensor in found.items() if isinstance(tensor, Tensor)}


def _flushed(process: Process, sync: SyncRecord) -> tuple[tuple[Member, ...], ...]:
    """The tensors of the buckets that were emptied for this sync."""
    return tuple(
        tuple(map(tensor_of, f.before.tensors))
        for f in process.flushes
        if f.sync == sync.index and f.emptied
    )
