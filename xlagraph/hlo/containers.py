"""Opening any input by one name: files, dump folders, run folders, standard input.

A *spec* names one module::

    FILE            the only module of a file (text or protobuf; plain, .gz or .zst)
    FILE:3          its third entry (1-based); FILE:-1 is the last one
    FILE:IrToHlo.7  the entry with that module name
    FILE:4f9b97     the entry whose graph hash begins so
    DIR:11          module_0011 of an --xla_dump_to folder, before optimization
    DIR:11:after    the same module after optimization
    RUN:4f9b97      the graph of a run folder whose digest begins so
    -               standard input; -:3 and so on as for files

Entries are found without reading the modules; `Entry.load` reads one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.content import Content, meant, standard_input
from xlagraph.errors import Source, SpecError
from xlagraph.hlo.sections import NO_PREAMBLE, Dropped, Preamble, scan

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    from xlagraph.graph import Module, SourceFrame

_DUMP_FILE = re.compile(
    r"(?:\d+\.)?module_(\d{1,9})\.(.+)\.(?:[\w.]*_)?(before|after)_optimizations"
    r"\.(txt|hlo|hlo\.pb)(?:\.gz|\.zst)?"
)
_GRAPH_FILE = re.compile(r"([0-9a-f]{6,})\.(hlo|hlo\.pb)(?:\.zst|\.gz)?")
_PROTO = "hlo.pb"
"""Ending of a protobuf's name, before that of a compression."""
_NUMBER = re.compile(r"-?\d{1,9}")
_RANK_SUFFIX = re.compile(r"\.(\d{1,6})(?:\.gz|\.zst)?")
MAX_NUMBERS = 12
"""Numbers of modules that an error lists."""
_HASH_PREFIX = 4
"""Characters of a hash that a spec has to give at least."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One module in an input: where it is and what its surroundings say about it."""

    file: str
    ordinal: int
    """1-based position in the file; the module number NNNN in a dump folder."""
    form: str
    """``hlo``, ``lazy-ir``, ``dot``, ``stablehlo``, ``proto`` or ``unknown``."""
    module: str
    start: int
    stop: int
    """Byte offsets in the (decompressed) file; `stop` is -1 for a file that is all module."""
    line: int
    """Line of the module's first line in the file (1-based)."""
    graph_hash: str = ""
    stage: str = ""
    """``before`` or ``after`` optimization in a dump folder, else ``""``."""
    rank: int | None = None
    """The ordinal that torch_xla appends to a save-tensors file's name."""
    preamble: Preamble = NO_PREAMBLE
    spec_in_folder: str = ""
    """The short name in a dump folder, where no other module has this number."""
    _content: Content = field(default=Content(""), repr=False, compare=False)
    _text: Content | None = field(default=None, repr=False, compare=False)
    """The text of the same module, where the entry is a protobuf that has one beside it."""

    @property
    def frames(self) -> tuple[SourceFrame, ...]:
        """Python frames of the sync that wrote the graph, innermost first."""
        return self.preamble.frames

    @property
    def spec(self) -> str:
        """The name by which `load` opens this entry."""
        if self.spec_in_folder:
            return self.spec_in_folder
        return self.file if self.stop < 0 else f"{self.file}:{self.ordinal}"

    def with_text(self, text: Entry) -> Entry:
        """This entry, a protobuf, with the text of the same module beside it."""
        return replace(self, _text=text._content)

    @property
    def text_beside(self) -> str:
        """The text of the same module beside a protobuf, or ``""``."""
        return self._text.text(0, len(self._text.data)) if self._text else ""

    def data(self) -> bytes | mmap.mmap:
        """The bytes of a module that fills its file."""
        return self._content.data

    def source(self) -> Source:
        """The module's text with its place in the file."""
        stop = self.stop if self.stop >= 0 else len(self._content.data)
        return Source(self.file, self._content.text(self.start, stop), self.line)

    def load(self) -> Module:
        """Reads the module.

        Raises:
            InputError: the text is not what its form says.
            SpecError: the file cannot be read, or is of a form that has to be converted first.
        """
        from xlagraph.hlo.forms import read_entry

        return read_entry(self)


class Listing(NamedTuple):
    """All entries of an input, and an account of everything that is not among them."""

    entries: tuple[Entry, ...]
    dropped: tuple[Dropped, ...] = ()
    ignored: int = 0
    """Files of a folder that hold no module (.ll, .o, reports, ...)."""

    def pairs(self) -> tuple[tuple[Entry | None, Entry | None], ...]:
        """Each module of a dump folder before and after optimization, in module order."""
        both: dict[tuple[int, str], list[Entry | None]] = {}
        for entry in self.entries:
            pair = both.setdefault((entry.ordinal, entry.module), [None, None])
            pair[entry.stage == "after"] = entry
        return tuple((before, after) for before, after in both.values())


def open_entries(path: str) -> Listing:
    """Lists the entries of a file, a folder or standard input (``-``) without reading them.

    Raises:
        SpecError: there is nothing at `path` that can be read.
    """
    if path != "-" and Path(path).is_dir():
        return _list_folder(Path(path))
    found = list(_scan_entries(path))
    return Listing(
        tuple(item for item in found if isinstance(item, Entry)),
        tuple(item for item in found if isinstance(item, Dropped)),
    )


def load(spec: str) -> Module:
    """Opens and reads the one module that a spec names; the call for every command.

    Raises:
        SpecError: the spec names no module, or several different ones.
        InputError: the module cannot be read.
    """
    return find_entry(spec).load()


def find_entry(spec: str) -> Entry:
    """The entry that a spec names; a file is scanned no further than needed.

    Raises:
        SpecError: as `load`.
    """
    path, selector = split_spec(spec)
    if path != "-" and Path(path).is_dir():
        return _select(path, selector, _list_folder(Path(path)))
    if _NUMBER.fullmatch(selector) and int(selector) > 0:
        count = 0
        for item in _scan_entries(path):
            if isinstance(item, Entry):
                count += 1
                if item.ordinal == int(selector):
                    return item
        raise SpecError(f"{path}: holds {count} modules, there is no {selector}")
    return _select(path, selector, open_entries(path))


def split_spec(spec: str) -> tuple[str, str]:
    """A spec's path and selector (``""`` without one).

    Raises:
        SpecError: nothing exists under any reading of the spec.
    """
    path, selector = spec, ""
    while True:
        if path == "-" or Path(path).exists():
            return path, selector
        path, colon, last = path.rpartition(":")
        if not colon:
            raise SpecError(f"{spec}: no such file or folder{meant(last)}")
        selector = f"{last}:{selector}" if selector else last


def _scan_entries(path: str) -> Iterator[Entry | Dropped]:
    content = standard_input() if path == "-" else Content(path)
    suffix = _RANK_SUFFIX.search(path)
    ordinal = 0
    for piece in scan(content):
        if isinstance(piece, Dropped):
            yield piece
            continue
        ordinal += 1
        yield Entry(
            content.name,
            ordinal,
            piece.form,
            piece.module,
            piece.start,
            piece.stop,
            piece.line,
            piece.preamble.graph_hash,
            rank=int(suffix[1]) if suffix else None,
            preamble=piece.preamble,
            _content=content,
        )


def _list_folder(folder: Path) -> Listing:
    """Entries of an --xla_dump_to folder or of a run folder, by number and stage.

    Of any other folder: those of all files that hold modules.
    """
    graphs = folder / "graphs"
    if graphs.is_dir():
        return _list_graphs(graphs)
    if not any(_DUMP_FILE.fullmatch(path.name) for path in folder.iterdir()):
        return _list_files(folder)
    entries: dict[tuple[int, str, str], Entry] = {}
    ignored = 0
    for path in sorted(folder.iterdir()):
        match = _DUMP_FILE.fullmatch(path.name)
        if not match:
            ignored += 1
            continue
        number, module, stage = int(match[1]), match[2], match[3]
        form = "proto" if match[4] == _PROTO else "hlo"
        entry = Entry(
            str(path), number, form, module, 0, -1, 1, stage=stage, _content=Content(str(path))
        )
        key = (number, module, stage)
        entries[key] = _joined(entries[key], entry) if key in entries else entry
    ordered = sorted(entries.values(), key=lambda e: (e.ordinal, e.module, e.stage != "before"))
    return Listing(tuple(_named_by_number(folder, ordered)), (), ignored)


def _named_by_number(folder: Path, entries: list[Entry]) -> Iterator[Entry]:
    """Entries with the specs ``DIR:11`` and ``DIR:11:after``, where these name one only."""
    places = Counter((entry.ordinal, entry.stage) for entry in entries)
    for entry in entries:
        stage = ":after" if entry.stage == "after" else ""
        is_one = places[entry.ordinal, entry.stage] == 1
        yield replace(entry, spec_in_folder=f"{folder}:{entry.ordinal}{stage}" if is_one else "")


def _joined(one: Entry, other: Entry) -> Entry:
    """One entry for a module that lies there as a protobuf and as text.

    The protobuf has whole stacks and constants, the text what is not in the protobuf.
    """
    proto, text = (one, other) if one.form == "proto" else (other, one)
    if proto.form == text.form:  # the same twice, such as .txt and .txt.gz
        return one
    return proto.with_text(text)


def _list_files(folder: Path) -> Listing:
    entries: list[Entry] = []
    dropped: list[Dropped] = []
    ignored = 0
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        listing = open_entries(str(path))
        known = [entry for entry in listing.entries if entry.form != "unknown"]
        entries += known
        dropped += listing.dropped if known else ()
        ignored += not known
    return Listing(tuple(entries), tuple(dropped), ignored)


def _list_graphs(graphs: Path) -> Listing:
    entries: dict[str, Entry] = {}
    ignored = 0
    for path in sorted(graphs.iterdir()):
        match = _GRAPH_FILE.fullmatch(path.name)
        if not match:
            ignored += 1
            continue
        digest, form = match[1], "proto" if match[2] == _PROTO else "hlo"
        known = entries.get(digest)
        number = known.ordinal if known else len(entries) + 1
        content = Content(str(path))
        entry = Entry(str(path), number, form, "", 0, -1, 1, digest, _content=content)
        entries[digest] = _joined(known, entry) if known else entry
    return Listing(tuple(entries.values()), (), ignored)


def _select(path: str, selector: str, listing: Listing) -> Entry:
    entries = listing.entries
    if not entries:
        raise SpecError("; ".join([f"{path}: holds no module", *map(str, listing.dropped)]))
    selector, _, stage = selector.partition(":")
    if stage not in ("", "before", "after"):
        raise SpecError(f"{path}:{selector}:{stage}: expected 'before' or 'after', not {stage!r}")
    entries = tuple(entry for entry in entries if entry.stage in (stage or "before", ""))
    matches = _matches(selector, entries)
    if not matches:
        known = _numbers_known(entries)
        see = f"(see `xlagraph list {path}`)"
        raise SpecError(f"{path}: no module is called {selector!r}{known} {see}")
    if len(matches) > 1 and not _are_one_graph(matches):
        some = ", ".join(entry.spec for entry in matches[:3])
        more = ", ..." if len(matches) > 3 else ""
        raise SpecError(f"{path}: holds {len(matches)} modules to choose from: {some}{more}")
    return matches[0]


def _numbers_known(entries: tuple[Entry, ...]) -> str:
    """The numbers that the modules of a dump folder have, a few of many."""
    numbers = sorted({entry.ordinal for entry in entries if entry.stage})
    shown = ", ".join(map(str, numbers[:MAX_NUMBERS])) + (", ..." if numbers[MAX_NUMBERS:] else "")
    return f"; XLA's numbers of those here: {shown}" if numbers else ""


def _are_one_graph(entries: tuple[Entry, ...]) -> bool:
    """Whether one graph was written several times: the same hash, and the same text."""
    hashes = {entry.graph_hash for entry in entries}
    return len(hashes) == 1 and "" not in hashes and len({e.source().text for e in entries}) == 1


def _matches(selector: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    if not selector:
        return entries
    if _NUMBER.fullmatch(selector):
        number = int(selector)
        if number < 0:
            return entries[number:][:1] if -number <= len(entries) else ()
        numbered = tuple(entry for entry in entries if entry.ordinal == number)
        if numbered:
            return numbered
    named = tuple(entry for entry in entries if entry.module == selector)
    if named or len(selector) < _HASH_PREFIX:
        return named
    return tuple(entry for entry in entries if entry.graph_hash.startswith(selector))
