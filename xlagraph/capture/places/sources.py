"""The program's own lines that a run refers to, read while their files are as they ran."""

from __future__ import annotations

import io
import linecache
import os
import re
import sys
import time
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType

from xlagraph.capture.places.blocks import block_around
from xlagraph.capture.places.loops import loops_around
from xlagraph.capture.places.settings import settings_in
from xlagraph.capture.places.sites import INSTALLED, is_inner
from xlagraph.errors import BytesError
from xlagraph.run.files import open_regular
from xlagraph.run.records import AROUND, SettingRecord, SourceRecord
from xlagraph.wire import WireField, varint, wire_fields

MAX_LINES = 2_000
"""Lines of the program that one process stores, without those around them."""
_MAX_FILE = 4 << 20
_MAX_FILES = 500
_MAX_SETTINGS = 200
_MAX_SCANNED = 1 << 20
"""Characters of the program that are searched for settings, 25,000 lines: less than a second."""
_MAX_WIDTH = 400
_INDEX, _FILE_NAMES, _LOCATIONS, _FILE, _LINE = 17, 1, 3, 1, 3
"""Of an HloModuleProto: its ``stack_frame_index``; of that the names of files, and places in them,
with the number of the file (from 1) and the line."""
_IN_TEXT = re.compile(rb'source_file="((?:[^"\\]|\\.)*)" source_line=(\d{1,9})')

Place = tuple[str, int]
"""A file, as its frames call it, and a line."""


class SourceReader:
    """Reads each line once; a file that has changed since the capture began is left out."""

    def __init__(self) -> None:
        self._began = time.time()
        self._folder = _working_folder()
        """For files of relative names: the program may go elsewhere later."""
        self._known: set[Place] = set()
        self._given: defaultdict[str, set[int]] = defaultdict(set)
        """The lines of each file that were given, for their own sake or around others."""
        self._looked: set[Place] = set()
        self._files: dict[str, list[str]] = {}
        self._scanned: set[str] = set()
        self._settings = self._characters = self._modules = 0

    def new(self, places: Iterable[Place]) -> Iterator[SourceRecord]:
        """Those of these lines that were not given yet, torch's and Python's own left out.

        Each with the lines around it, and in a file of the program with the block of a function
        that it stands in, where a condition or a list may say what runs there.
        """
        for file, line in sorted(set(places) - self._known):
            if len(self._known) >= MAX_LINES:
                return
            self._known.add((file, line))
            wanted = self._around(file, line)
            if line > 0 and not self._given[file].issuperset(wanted):
                self._given[file].update(wanted)
                yield SourceRecord(file, wanted.start, self._texts(file, wanted))

    def loops(self, places: Iterable[Place]) -> Iterator[SourceRecord]:
        """The same for the loops around lines of the program; those of libraries are left out."""
        found = sorted(set(places) - self._looked)[: MAX_LINES - len(self._looked)]
        self._looked.update(found)
        for file, of_file in groupby(found, key=itemgetter(0)):
            if _is_installed(file):
                continue
            loops = loops_around(self._lines(file), [line for _, line in of_file])
            for line, loop in sorted(loops.items()):
                near = self._near(file, loop)
                yield SourceRecord(file, near.start, self._texts(file, near), line, loop)

    def settings(self, places: Iterable[Place]) -> Iterator[SettingRecord]:
        """What the files of these lines, and the program's modules, set of layers and parameters.

        Each file is read once; those of libraries are left out.
        """
        named = dict.fromkeys(file for file, _ in places)
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            named |= dict.fromkeys(_imported())
        program = dict[str, list[str]]()
        for file in [one for one in named if one not in self._scanned]:
            self._scanned.add(file)
            if _is_installed(file) or is_inner(file) or self._characters > _MAX_SCANNED:
                continue
            program[file] = self._files[file] if file in self._files else self._read(file)
            self._characters += sum(map(len, program[file]))
        for file, lines in program.items():
            others = [text for one, text in program.items() if one != file]
            for setting in settings_in(lines, others)[: _MAX_SETTINGS - self._settings]:
                self._settings += 1
                yield SettingRecord(file, *setting)

    def _around(self, file: str, line: int) -> range:
        near = self._near(file, line)
        if not near or _is_installed(file):
            return near
        block = block_around(self._lines(file), line)
        return range(min(near.start, block.start), max(near.stop, block.stop))

    def _near(self, file: str, line: int) -> range:
        return range(max(line - AROUND, 1), min(line + AROUND, len(self._lines(file))) + 1)

    def _texts(self, file: str, wanted: range) -> tuple[str, ...]:
        near = self._lines(file)[wanted.start - 1 : wanted.stop - 1]
        return tuple(text[:_MAX_WIDTH] for text in near)

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            may_read = len(self._files) < _MAX_FILES and not is_inner(file)
            self._files[file] = self._read(file) if may_read else []
        return self._files[file]

    def _read(self, file: str) -> list[str]:
        """A file's lines, without their ends; none if it cannot be told how they were."""
        entry = linecache.cache.get(file)
        if entry is not None and len(entry) == 4:  # a notebook's cell, for example
            return [line.rstrip("\r\n") for line in entry[2]]
        return _lines_of(self._folder / file, self._began)


def _imported() -> set[str]:
    """The files of modules, but for the program's first one: call sites say how that is called."""
    modules = sys.modules.copy()  # whole at once: a list of its items may be cut by a collection
    known = [module for name, module in modules.items() if name != "__main__"]
    files = {vars(one).get("__file__") for one in known if type(one) is ModuleType}
    return {file for file in files if type(file) is str and file.endswith(".py")}


def _is_installed(file: str) -> bool:
    return any(folder in file for folder in INSTALLED)


def places_in(text: bytes, proto: bytes | None) -> set[Place]:
    """The lines that a module's instructions name, with all of their stacks if it has them."""
    if proto is not None:
        try:
            return set(_in_proto(proto))
        except (BytesError, IndexError):  # not as XLA writes it
            return set()
    found = set(_IN_TEXT.findall(text))
    return {(_unescaped(file), int(line)) for file, line in found}


def _in_proto(proto: bytes) -> Iterator[Place]:
    for index in wire_fields(proto, 0, len(proto), ""):
        if index.number == _INDEX:
            fields = list(wire_fields(proto, index.start, index.stop, ""))
            named = [proto[one.start : one.stop] for one in fields if one.number == _FILE_NAMES]
            files = [name.decode(errors="replace") for name in named]
            for one in fields:
                if one.number == _LOCATIONS:
                    numbers = _numbers(proto, one)
                    yield files[numbers[_FILE] - 1], numbers[_LINE]


def _numbers(proto: bytes, message: WireField) -> dict[int, int]:
    """The numbers in a message, by field; 0 where one is missing, as protobuf has it."""
    fields = wire_fields(proto, message.start, message.stop, "")
    found = {one.number: varint(proto, one.start, one.stop, "")[0] for one in fields}
    return {_FILE: 0, _LINE: 0} | found


def _unescaped(file: bytes) -> str:
    return file.decode(errors="replace").replace('\\"', '"').replace("\\\\", "\\")


def _lines_of(path: Path, began: float) -> list[str]:
    """A file's lines; none if it cannot be read, is no Python, or was changed after ``began``."""
    try:
        with open_regular(path) as stream:
            found = os.fstat(stream.fileno())
            if found.st_size > _MAX_FILE or found.st_mtime > began:
                return []
            data = stream.read()
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        return data.decode(encoding, "replace").splitlines()
    except (OSError, ValueError, SyntaxError, LookupError):
        return []


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return Path("/")
