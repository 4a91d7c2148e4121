"""How a report names things, by what its inputs hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.report.names import PlainNames
from xlagraph.report.redact import RedactedNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module, SourceFrame
    from xlagraph.report.model import ReportOptions
    from xlagraph.report.names import Names
    from xlagraph.run.reader import Process, Run


def names_for(
    options: ReportOptions,
    modules: Sequence[Module] = (),
    run: Run | None = None,
    contexts: Iterable[Context] = (),
    files: Iterable[str] = (),
) -> Names:
    """How a report of these inputs names things; `files`: further ones that it speaks of."""
    if options.redact:
        redacted = RedactedNames()
        redacted.learn(modules)
        return redacted
    found = {file for process in (run.processes if run else ()) for file in _files(process)}
    found |= {frame.file for module in modules for frame in _frames(module)}
    found |= {file for context in contexts for file in _context_files(context)}
    return PlainNames(found.union(files))


def _context_files(context: Context) -> Iterator[str]:
    if context.call_site:
        yield context.call_site.file
    for line in context.created.values():
        yield line.file


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
