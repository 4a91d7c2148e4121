"""One spec, one module and what is known about it: files and run folders alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xlagraph.cause.model import Context
from xlagraph.errors import SpecError
from xlagraph.hlo.containers import find_entry, split_spec
from xlagraph.message import SourceLine
from xlagraph.run.remote import is_url

if TYPE_CHECKING:
    from xlagraph.graph import Module
    from xlagraph.hlo.containers import Entry
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A module, the spec it was opened by, and the context that its container gives."""

    spec: str
    module: Module
    context: Context


def open_module(spec: str) -> Opened:
    """Opens a spec; in a run folder a graph is named by its letter or by its digest.

    Raises:
        SpecError: the spec names no module, or several different ones.
        InputError: the module cannot be read.
    """
    if is_url(spec):
        path, selector = _split_url(spec)
        return _open_graph(spec, path, selector)
    path, selector = split_spec(spec)
    if path != "-" and is_run(path):
        return _open_graph(spec, path, selector)
    entry = find_entry(spec)
    return Opened(spec, entry.load(), _entry_context(entry))


def is_run(path: str) -> bool:
    """Whether a path is a run folder of `xlagraph.capture`; a URL can be nothing else."""
    if is_url(path):
        return True
    return any(Path(path).glob("records-*.jsonl")) if Path(path).is_dir() else False


def _split_url(spec: str) -> tuple[str, str]:
    """A run's URL and the graph named behind it: ``s3://bucket/run:A``."""
    path, colon, selector = spec.rpartition(":")
    return (path, selector) if colon and "/" not in selector else (spec, "")


def _entry_context(entry: Entry) -> Context:
    preamble = entry.preamble
    key = {}
    if entry.graph_hash and preamble.event:  # a text that was cut out may be of any program
        key["graph_hash"] = entry.graph_hash
    if preamble.root_hashes:
        key["root_hashes"] = ", ".join(preamble.root_hashes)
    lines = [SourceLine(*frame) for frame in preamble.frames]
    own = (line for line in lines if not line.is_library)
    return Context(call_site=next(own, next(iter(lines), None)), key=key)


def _open_graph(spec: str, path: str, selector: str) -> Opened:
    from xlagraph.hlo import read_stored
    from xlagraph.run.reader import read_run
    from xlagraph.runs.graphs.context import named_context

    run = read_run(path)
    record, process = _find_graph(run, path, selector)
    module = read_stored(*run.graph(record.digest), spec)
    return Opened(spec, module, named_context(process, record, module))


def _find_graph(run: Run, path: str, selector: str) -> tuple[GraphRecord, Process]:
    from xlagraph.runs.explain import graph_order

    graphs = graph_order(run)
    known = ", ".join(letter for letter, _, _ in graphs)
    found = [
        (record, process)
        for letter, record, process in graphs
        if selector == letter or (len(selector) >= 4 and record.digest.startswith(selector))
    ]
    if not selector:
        raise SpecError(
            f"{path} is a run folder; name one of its graphs, such as {path}:A (it has "
            f"{known or 'none'})"
        )
    if len(found) != 1:
        raise SpecError(
            f"{path}: no graph is called {selector!r}; the run has {known or 'none'} "
            f"(name one as {path}:A, or by the first characters of its digest)"
        )
    return found[0]
