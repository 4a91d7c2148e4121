"""Every name that the inputs of a report hold, for cutting paths and for redaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.report.names import PlainNames
from xlagraph.report.redact import RedactedNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module, SourceFrame
    from xlagraph.report.model import ReportOptions
    from xlagraph.report.names import Names
    from xlagraph.run.reader import Process, Run


def names_for(
    options: ReportOptions,
    modules: Iterable[Module],
    run: Run | None = None,
    contexts: Iterable[Context] = (),
) -> Names:
    """How a report of these inputs names things."""
    modules = list({id(module): module for module in modules}.values())
    processes = run.processes if run else ()
    contexts = list(contexts)
    files = {file for process in processes for file in _files(process)}
    files |= {frame.file for module in modules for frame in _frames(module)}
    files |= {line.rpartition(":")[0] for context in contexts for line in _lines(context)}
    if not options.redact:
        return PlainNames(files)
    words = {module.name for module in modules}
    words.update(c.name for module in modules for c in module.computations)
    return RedactedNames(
        tensors=(
            *(name for process in processes for name in _tensors(process)),
            *(name for context in contexts for name in _context_tensors(context)),
        ),
        instructions=(pair for m in modules for pair in zip(m.names, m.opcodes, strict=True)),
        words=words,
        files=files,
    )


def _lines(context: Context) -> Iterator[str]:
    """Every ``file:line`` of a context."""
    yield context.call_site
    yield from context.created.values()


def _context_tensors(context: Context) -> Iterator[str]:
    for names in (context.parameters, context.outputs, context.holders):
        yield from names.values()
    for bucket in context.flushed:
        yield from bucket
    yield from context.waiting


def _files(process: Process) -> Iterator[str]:
    yield from process.record.argv[:1]
    for sync in process.syncs:
        for frame in sync.call_site:
            yield frame.file
        for tensor in sync.live_tensors:
            for frame in tensor.created:
                yield frame.file


def _frames(module: Module) -> Iterator[SourceFrame]:
    seen = set()
    for i, attributes in enumerate(module.attributes):
        if attributes.metadata and attributes.metadata not in seen:
            seen.add(attributes.metadata)
            metadata = module.metadata(i)
            yield from metadata.frames if metadata else ()


def _tensors(process: Process) -> Iterator[str]:
    """Names of tensors and buckets, and what holds live tensors."""
    for sync in process.syncs:
        for tensor in sync.live_tensors:
            yield tensor.name
            yield tensor.holder
        for bucket in sync.buckets:
            yield bucket.bucket
            yield from bucket.tensors
    for flush in process.flushes:
        yield flush.before.bucket
        yield from flush.before.tensors
    for graph in process.graphs:
        yield from (parameter.name for parameter in graph.parameters)
        yield from graph.outputs
