"""The modules that XLA wrote as it compiled, from its dump folder."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from xlagraph.capture.xla_dump.private import PrivateFolder
from xlagraph.errors import BytesError
from xlagraph.run.files import open_regular
from xlagraph.wire import BYTES, wire_fields

_NAME = re.compile(r"((?:\d+\.)?module_(\d+)\..*before_optimizations)\.(txt|hlo\.pb|hlo\.pb\.gz)")
_XLAS = re.compile(r"(?:\d+\.)?module_\d+\.")
_END = re.compile(rb"\}\s*(?://[^\n]*)?\s*\Z")
"""A module's last line; XLA of torch_xla 2.7 and before repeats the name there."""


@dataclass(frozen=True, slots=True)
class DumpedModule:
    """One module as XLA was given it: as text, as a protobuf, or as both."""

    file: str
    text: bytes | None
    proto: bytes | None = None
    """A serialized ``HloModuleProto``."""


class Modules(Protocol):
    """Where a process's modules come from."""

    def take(self) -> list[DumpedModule]:
        """Modules complete since the last call, in the order they were compiled.

        Raises:
            OSError: the folder cannot be read.
        """

    def why_none(self) -> str:
        """Why a compile has left none here, as far as can be told; mends what can be mended."""

    def keep_room(self) -> None:
        """Between compiles: have XLA write where there is room.

        Raises:
            OSError: the folder cannot be read, or a new one cannot be made.
        """


class NoModules:
    """XLA's dump is the user's, and goes where it cannot be read."""

    def __init__(self, why: str) -> None:
        self._why = why

    def take(self) -> list[DumpedModule]:
        """None, ever."""
        return []

    def why_none(self) -> str:
        """The user's setting."""
        return self._why

    def keep_room(self) -> None:
        """Nothing: where it is written is the user's choice."""


class TheirModules:
    """The user's own dump folder, in which nothing is deleted."""

    def __init__(self, folder: Path, what_leaves_out: str) -> None:
        self.folder = folder
        self._what_leaves_out = what_leaves_out
        self._seen = {name for name, _, _ in _list(folder)}

    def take(self) -> list[DumpedModule]:
        """Those that were written since."""
        found = []
        for name, _, others in _list(self.folder):
            if name not in self._seen:
                module = _read(self.folder, name, others)
                if module is not None:
                    self._seen |= {name, *others}
                    found.append(module)
        return found

    def why_none(self) -> str:
        """What in ``XLA_FLAGS`` keeps XLA from writing, or capture from reading."""
        return self._what_leaves_out

    def keep_room(self) -> None:
        """Nothing: where it is written is the user's choice."""


class PrivateModules:
    """A folder that is emptied after each compile."""

    def __init__(self, private: PrivateFolder) -> None:
        self._private = private
        self._gave_any = False

    def take(self) -> list[DumpedModule]:
        """Those that are complete; what else XLA has written is deleted."""
        folder = self._private.modules
        found = []
        kept = set()
        for name, _, others in _list(folder):
            module = _read(folder, name, others)
            if module is None:
                kept |= {name, *others}  # another thread is writing it; read after that sync
            else:
                found.append(module)
        for entry in _entries(folder):
            if entry.name not in kept and _XLAS.match(entry.name):
                Path(entry.path).unlink(missing_ok=True)
        self._gave_any = self._gave_any or bool(found)
        if found and not kept:
            with suppress(OSError):  # there is no room anywhere
                self._private.leave_full_disk()
        return found

    def keep_room(self) -> None:
        """Leave a disk that others have filled: XLA prints a line for each file that fails."""
        if not any(_entries(self._private.modules)):  # else another thread compiles into it
            self._private.leave_full_disk()

    def why_none(self) -> str:
        """A full disk or a deleted folder; then XLA is given another one."""
        if not self._private.is_usable():
            old = self._private.path
            self._private.move()
            return f"{old} was deleted, or its disk is full: XLA now dumps to {self._private.path}"
        if self._gave_any:
            return "XLA has written no complete module"
        return "XLA does not write where it was told to: had it read XLA_FLAGS before?"


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Regular files only: XLA writes nothing else."""
    try:
        with os.scandir(folder) as entries:
            yield from (one for one in entries if one.is_file(follow_symlinks=False))
    except FileNotFoundError:  # XLA makes it when it next compiles
        return


def _list(folder: Path) -> list[tuple[str, int, tuple[str, ...]]]:
    """Files with modules: the name, the module's number, and its other forms' names."""
    forms: dict[tuple[int, str], list[str]] = {}
    for entry in _entries(folder):
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            forms.setdefault((int(match[2]), match[1]), []).append(entry.name)
    # The text, where there is one: ".txt" sorts last.
    return [
        (sorted(names)[-1], number, tuple(sorted(names)[:-1]))
        for (number, _), names in sorted(forms.items())
    ]


def _read(folder: Path, name: str, others: tuple[str, ...]) -> DumpedModule | None:
    """The module in a file, with what its other forms add; None when it is not complete."""
    if not name.endswith(".txt"):
        proto = _read_proto(folder / name)
        return None if proto is None else DumpedModule(name, None, proto)
    with open_regular(folder / name, follow=False) as file:
        text = file.read()
    if not _END.search(text[-4096:]):
        return None
    protos = (_read_proto(folder / other) for other in others)
    return DumpedModule(name, text, next((one for one in protos if one is not None), None))


def _read_proto(path: Path) -> bytes | None:
    """The ``HloModuleProto`` in a file; None when it is not complete."""
    with open_regular(path, follow=False) as file:
        data = file.read()
    try:
        return _module_of(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (BytesError, ValueError, EOFError, OSError, zlib.error):
        return None


def _module_of(proto: bytes) -> bytes:
    """The ``HloModuleProto`` in an ``HloProto``: its field 1, which comes first.

    Raises:
        BytesError: it is cut off.
        ValueError: it is not there.
    """
    first = next(wire_fields(proto, 0, len(proto), ""), None)
    if first is None or (first.number, first.wire) != (1, BYTES):
        raise ValueError("no HloProto")
    return proto[first.start : first.stop]


def module_name(text: bytes) -> str:
    """The name in a module text's header line, or ``""``."""
    match = re.match(rb"HloModule ([^\s,]+)", text)
    return match[1].decode(errors="replace") if match else ""
