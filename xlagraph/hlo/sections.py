"""Finding modules in a file without reading them: save-tensors files, many modules, one.

The scan looks for marker lines only and yields pieces in file order, so that the first
entries are at hand before the rest of the file has been touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.graph import SourceFrame
from xlagraph.hlo.proto.wire import looks_like_module

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    from xlagraph.content import Content

_HEAD = 1 << 16
_TAIL = 1 << 12
_BINARY_HEAD = 1 << 10
"""So many first bytes tell text from binary data."""
_CHUNK = 1 << 20
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_MARK = re.compile(rb"(?:^|\n)## (BEGIN|END)_GRAPH")
_MARK_AFTER = re.compile(rb"\n## (BEGIN|END)_GRAPH")
_MODULE = re.compile(rb"\nHloModule[ \t]")
_HLO_NAME = re.compile(rb"HloModule\s+([^\s,]+)")
_STABLEHLO = re.compile(rb"(?:#\w[^\n]*\n\s*)*module\b(?:\s+@([\w.$\-]+))?")
_DOT = re.compile(rb"digraph\s+([\w.\-]*)")
_CLOSED = re.compile(rb"\}[^\n{}\"]*\s*\Z")
_HASH = b"\nGraph Hash: "
_FRAME = re.compile(r"^  (.*) \((.*):(\d{1,9})\)$", re.M)
_HASHES = re.compile(r"^(?:Root )?Hashes: \(([^()\n]*)\)", re.M)
_GRAPH_NAME = re.compile(r"^Graph Name: (.*)$", re.M)
_EVENT = re.compile(r"^\[(\w+)\]\s*$", re.M)


NOT_HLO = "neither text nor an HLO protobuf (HloProto, HloModuleProto, HloSnapshot)"


class Dropped(NamedTuple):
    """A piece of an input that could not be used, and why."""

    file: str
    line: int
    """First line of the piece (1-based)."""
    start: int
    stop: int
    """Byte offsets of the piece."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason} ({self.stop - self.start} bytes dropped)"


class Preamble(NamedTuple):
    """What a save-tensors file says before and after a graph."""

    event: str = ""
    """``ScheduleSyncTensorsGraph`` or another call that wrote the graph."""
    graph_name: str = ""
    frames: tuple[SourceFrame, ...] = ()
    """Python frames of the sync, innermost first."""
    root_hashes: tuple[str, ...] = ()
    graph_hash: str = ""
    output_sharding: str = ""
    """Text between ``#OUTPUT_SHARDING_BEGIN`` and ``#OUTPUT_SHARDING_END``."""


NO_PREAMBLE = Preamble()


class Section(NamedTuple):
    """One module's place in an input."""

    start: int
    stop: int
    line: int
    form: str
    """``hlo``, ``lazy-ir``, ``dot``, ``stablehlo``, ``proto`` or ``unknown``."""
    module: str
    preamble: Preamble = NO_PREAMBLE


def scan(content: Content) -> Iterator[Section | Dropped]:
    """Yields the modules of an input, and what had to be dropped, in file order."""
    head = bytes(content.data[:_HEAD])
    if (module := looks_like_module(head)) is not None:
        yield Section(0, len(content.data), 1, "proto", module)
    elif _CONTROL.search(head, 0, _BINARY_HEAD):
        yield Dropped(content.name, 1, 0, len(content.data), NOT_HLO)
    elif _search(_MARK, content.data):
        yield from _scan_saved(content)
    elif head.strip():
        yield from _scan_modules(content)
    if content.damage:
        size = len(content.data)
        line = 1 + content.lines_between(0, size)
        yield Dropped(content.name, line, size, size, content.damage)


def form_of(head: bytes) -> tuple[str, str]:
    """Form and module name of a text, from its first bytes."""
    head = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if match := _HLO_NAME.match(head):
        return "hlo", match[1].decode("utf-8", "replace")
    if head.startswith(b"IR {"):
        return "lazy-ir", "IR"
    if match := _DOT.match(head):
        return "dot", match[1].decode()
    if match := _STABLEHLO.match(head):
        return "stablehlo", (match[1] or b"").decode("utf-8", "replace")
    return "unknown", ""


def _search(
    pattern: re.Pattern[bytes], data: mmap.mmap | bytes, start: int = 0
) -> re.Match[bytes] | None:
    """As ``pattern.search``, for the patterns above that begin with a line feed.

    Candidates are found with ``bytes.find`` in chunks, many times faster than ``re``.
    """
    needle = b"\n##" if pattern is not _MODULE else b"\nHloModule"
    if match := pattern.match(data, start):
        return match
    for at in range(start, len(data), _CHUNK):
        piece = data[at : at + _CHUNK + len(needle)]
        found = piece.find(needle)
        while found >= 0:
            if match := pattern.match(data, at + found):
                return match
            found = piece.find(needle, found + 1)
    return None


class _LineCounter:
    """Line numbers of growing offsets, counting each byte once."""

    def __init__(self, content: Content):
        self._content = content
        self._offset = 0
        self._line = 1

    def line_at(self, offset: int) -> int:
        self._line += self._content.lines_between(self._offset, offset)
        self._offset = offset
        return self._line


def _scan_saved(content: Content) -> Iterator[Section | Dropped]:
    data, lines = content.data, _LineCounter(content)
    previous_end = 0
    mark = _search(_MARK, data)
    while mark:
        following = _search(_MARK_AFTER, data, mark.end())
        if mark[1] == b"END":
            previous_end = mark.end()
            mark = following
            continue
        begin = data.find(b"\n", mark.end()) + 1 or len(data)
        line = lines.line_at(begin)
        if following is None or following[1] == b"BEGIN":
            stop = following.start() if following else len(data)
            yield Dropped(content.name, line, begin, stop, "graph is cut off (no '## END_GRAPH')")
        else:
            before = content.text(max(previous_end, mark.start() - _HEAD), mark.start())
            yield _saved_section(content, before, begin, following.start(), line)
        mark = following


def _saved_section(content: Content, before: str, begin: int, end: int, line: int) -> Section:
    """One graph between its markers; the trailers stand within the last lines of it."""
    data = content.data
    graph_hash = sharding = ""
    stop = end
    tail_start = max(begin, end - _TAIL)
    at = bytes(data[tail_start:end]).rfind(_HASH)
    if at >= 0:
        stop = tail_start + at
        graph_hash = content.text(stop, end).partition(": ")[2].strip()
    trailer = bytes(data[max(begin, stop - 64) : stop]).rstrip()
    if trailer.endswith(b"#OUTPUT_SHARDING_END"):
        opening = data.rfind(b"\n#OUTPUT_SHARDING_BEGIN", begin, stop)
        if opening >= 0:
            sharding = (
                content.text(opening, stop).partition("BEGIN")[2].rpartition("#OUTPUT")[0].strip()
            )
            stop = opening
    form, module = form_of(bytes(data[begin : begin + _TAIL]))
    event = _EVENT.findall(before)
    name = _GRAPH_NAME.search(before)
    hashes = _HASHES.search(before)
    frames = tuple(SourceFrame(f, int(n), function) for function, f, n in _FRAME.findall(before))
    preamble = Preamble(
        event[-1] if event else "",
        name[1].strip() if name else "",
        frames,
        tuple(hashes[1].split(", ")) if hashes and hashes[1] else (),
        graph_hash,
        sharding,
    )
    return Section(begin, stop, line, form, module, preamble)


def _scan_modules(content: Content) -> Iterator[Section | Dropped]:
    """Modules one after another; a text with no ``HloModule`` line is one entry."""
    data, lines = content.data, _LineCounter(content)
    head = bytes(data[:_HEAD])
    lead = len(head) - len(head.lstrip(b"\xef\xbb\xbf \t\r\n"))
    if not head.startswith(b"HloModule", lead):
        found = _search(_MODULE, data)
        if not found:
            yield Section(0, len(data), 1, *form_of(head))
            return
        before = bytes(data[: min(found.start(), _HEAD)]).strip()
        if not before.startswith((b"//", b"/*")):
            yield Dropped(content.name, 1, 0, found.start(), "text before the first module")
        lead = found.start() + 1
    start, count = lead, 0
    while True:
        following = _search(_MODULE, data, start)
        stop = following.start() + 1 if following else len(data)
        line = lines.line_at(start)
        count += 1
        tail = bytes(data[max(start, stop - _TAIL) : stop])
        closed = _CLOSED.search(tail)
        if not closed and _HASH in tail:  # cut by hand out of a save-tensors file
            yield _saved_section(content, "", start, stop, line)
        elif not closed and (count > 1 or following):
            yield Dropped(content.name, line, start, stop, "module is cut off (no closing '}')")
        else:
            form, module = form_of(bytes(data[start : start + _TAIL]))
            yield Section(start, stop, line, form, module)
        if not following:
            return
        start = stop
