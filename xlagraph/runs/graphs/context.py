"""What a capture knows of a module, put into the form that rules ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Context, MissingGradient, Setting, UnfinishedBackward
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.facts.training.named_inputs import replaced_inputs, with_inputs_named
from xlagraph.message import SourceLine, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Member
    from xlagraph.graph import Module
    from xlagraph.message import Message
    from xlagraph.run.reader import Process
    from xlagraph.run.records import BucketState, Frame, GraphRecord, SyncRecord
    from xlagraph.tensors import Tensor


def named_context(process: Process, graph: GraphRecord, module: Module) -> Context:
    """`context_of`, with names for inputs that no record has and the module's updates tell of."""
    return with_inputs_named(context_of(process, graph), replaced_inputs(module))


def context_of(process: Process, graph: GraphRecord) -> Context:
    """The context of a graph: of the sync that compiled it, in its process."""
    sync = process.sync_at(graph.sync)
    if sync is None:
        return Context(key=dict(graph.key), argv=process.record.argv)
    live = [t for t in sync.live_tensors if t.output >= 0]  # else its place is not known
    created = {t.output: own_frame(t.created) for t in live}
    return Context(
        parameters={p.index: p.tensor for p in graph.parameters},
        outputs=_known((*enumerate(graph.outputs), *((t.output, t.tensor) for t in live))),
        created={output: line for output, line in created.items() if line},
        holders={t.output: t.holders for t in live if t.holders},
        sync_kind=sync.kind,
        call_site=own_frame(sync.call_site),
        flushed=_flushed(process, sync),
        waiting=tuple(one for bucket in sync.buckets for one in _members(bucket)),
        unfinished=tuple(_unfinished(one) for one in sync.buckets if one.hooks_left),
        argv=process.record.argv,
        stacks=_stacks(sync),
        program=_stored([process]),
        settings=tuple(
            Setting(SourceLine(one.file, one.line, one.function), one.option, one.value)
            for one in process.settings
        ),
        key=dict(graph.key) | ({"ir_nodes": str(sync.fingerprint[0])} if sync.fingerprint else {}),
    )


def own_frame(frames: Sequence[Frame]) -> SourceLine | None:
    """The innermost frame of the program itself, else the innermost."""
    lines = _lines(frames)
    return next((line for line in lines if not line.is_library), next(iter(lines), None))


def step_at(line: SourceLine | None) -> Message:
    """What steps that end at a line are called; empty where that is not known."""
    return say("step at ", line) if line else say()


def _lines(frames: Sequence[Frame]) -> tuple[SourceLine, ...]:
    return tuple(SourceLine(frame.file, frame.line, frame.function) for frame in frames)


def program_text(processes: Iterable[Process]) -> ProgramText:
    """What was stored of the program's files, with the loops around the lines that end steps."""
    known = tuple(processes)
    loops = {(one.file, one.loop) for process in known for one in process.sources if one.loop}
    return ProgramText(_stored(known), frozenset(loops))


def _stored(processes: Iterable[Process]) -> dict[str, dict[int, str]]:
    """The lines of the program that were stored, by file and number."""
    found: dict[str, dict[int, str]] = {}
    for process in processes:
        for one in process.sources:
            found.setdefault(one.file, {}).update(enumerate(one.lines, one.first))
    return found


def _stacks(sync: SyncRecord) -> dict[SourceLine, tuple[SourceLine, ...]]:
    """The frames around the line of each tensor, bucket and call that the sync tells of."""
    known = [one.created for one in sync.live_tensors] + [one.made for one in sync.buckets]
    found: dict[SourceLine, tuple[SourceLine, ...]] = {}
    for frames in (sync.call_site, *known):
        line = own_frame(frames)
        if line:
            found.setdefault(line, _lines(frames))
    return found


def _known(tensors: Iterable[tuple[int, Tensor | None]]) -> dict[int, Tensor]:
    return {k: tensor for k, tensor in tensors if tensor}


def _members(bucket: BucketState) -> tuple[Member, ...]:
    """The tensors in a bucket; by their shapes where they are not known."""
    pairs = zip(bucket.tensors, bucket.shapes, strict=False)
    return tuple(tensor or shape for tensor, shape in pairs)


def _unfinished(bucket: BucketState) -> UnfinishedBackward:
    missing = [
        MissingGradient(one.tensor, one.shape, one.owner_class, own_frame(one.defined))
        for one in bucket.without_gradient
    ]
    made = own_frame(bucket.made)
    return UnfinishedBackward(bucket.bucket, bucket.hooks, bucket.hooks_left, tuple(missing), made)


def _flushed(process: Process, sync: SyncRecord) -> tuple[tuple[Member, ...], ...]:
    """The tensors of the buckets that were emptied for this sync."""
    return tuple(_members(f.before) for f in process.flushes if f.sync == sync.index and f.emptied)
