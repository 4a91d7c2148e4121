"""What was worked out about a run, kept beside it: sketches of graphs, explanations of pairs.

``RUN/cache/<version>/<name>.json.zst``: one file or object for each, put whole. What cannot be
read, is damaged or belongs to something else counts as not there, and is written anew; a folder
that cannot be written stays as it is. Nothing is lost by deleting ``RUN/cache``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zstandard

from xlagraph.errors import XlagraphError
from xlagraph.run.files import unfold
from xlagraph.run.places import place
from xlagraph.runs.pairs.codec import CodecError, decode, encode
from xlagraph.version import tool_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = "cache"
SUFFIX = ".json.zst"
AT_ONCE = 64
"""Entries that are fetched together: a store answers many questions at the price of one."""


def packed(key: str, value: object) -> bytes:
    """A value as the file that holds it."""
    text = json.dumps([key, encode(value)], separators=(",", ":"), ensure_ascii=True)
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(text.encode())


def unpacked(data: bytes, key: str, cls: type[Any]) -> Any:
    """The value in such a file; None if it is damaged or of another key."""
    try:
        found, plain = json.loads(unfold(data, key))
        return decode(cls, plain) if found == key else None
    except (CodecError, XlagraphError, ValueError, TypeError, zstandard.ZstdError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of one run; off, it holds nothing and keeps nothing."""

    address: str
    is_on: bool

    def read(self, key: str) -> bytes | None:
        """A file, if it is there."""
        return next((data for _, data in self.read_all([key])), None)

    def read_all(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Those of several that are there, a few at a time."""
        if not self.is_on:
            return
        for start in range(0, len(keys), AT_ONCE):
            names = {_name(key): key for key in keys[start : start + AT_ONCE]}
            for name, data in place(self.address).read_all(list(names)).items():
                yield names[name], data

    def write(self, key: str, data: bytes) -> None:
        """Keeps a file, where that can be done."""
        if not self.is_on:
            return
        try:
            place(self.address).write(_name(key), data)
        except (OSError, XlagraphError):  # read-only, full: the work is done again next time
            return

    def tidy(self) -> None:
        """Takes away what was half-written by workers that were killed."""
        if self.is_on:
            place(self.address).tidy(_folder())


def _folder() -> str:
    return f"{FOLDER}/{tool_version()}"


def _name(key: str) -> str:
    return f"{_folder()}/{key}{SUFFIX}"
