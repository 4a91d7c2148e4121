"""What a capture knows of a module, put into the form that detectors ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Context
from xlagraph.cause.places import own_frame

if TYPE_CHECKING:
    from xlagraph.run.reader import Process
    from xlagraph.run.records import GraphRecord, SyncRecord


def context_of(process: Process, graph: GraphRecord) -> Context:
    """The context of a graph: of the sync that compiled it, in its process."""
    sync = process.sync_at(graph.sync)
    if sync is None:
        return Context(key=dict(graph.key))
    return Context(
        parameters={p.index: p.name for p in graph.parameters},
        outputs=_output_names(graph, sync),
        created={t.output: own_frame(t.created) for t in sync.live_tensors if t.created},
        holders={t.output: t.holder for t in sync.live_tensors if t.holder},
        sync_kind=sync.kind,
        call_site=own_frame(sync.call_site),
        flushed=_flushed(process, sync),
        waiting=tuple(name for bucket in sync.buckets for name in bucket.tensors),
        key=dict(graph.key) | ({"ir_nodes": str(sync.fingerprint[0])} if sync.fingerprint else {}),
    )


def _output_names(graph: GraphRecord, sync: SyncRecord) -> dict[int, str]:
    names = {k: name for k, name in enumerate(graph.outputs) if name}
    names.update({t.output: t.name for t in sync.live_tensors if t.name})
    return names


def _flushed(process: Process, sync: SyncRecord) -> tuple[tuple[str, ...], ...]:
    """The tensors of the buckets that were emptied for this sync."""
    return tuple(
        tuple(f.before.tensors) for f in process.flushes if f.sync == sync.index and f.emptied
    )
