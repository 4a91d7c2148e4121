"""A stream log as an input: opened once, read from the start as often as it is needed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.content import Content, standard_input
from xlagraph.errors import InputError, Location, Source
from xlagraph.streams.format import UNREADABLE, VERSION, fault, offset_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.format import Record

LONGEST_LINE = 1 << 24
"""Characters; what is longer is no record."""

_CHUNK = 1 << 20

Numbered = tuple[int, "Record"]
"""A line number, from 1, and the record that the line holds."""


class Damage(NamedTuple):
    """What a reader passed over at the end of a log."""

    line: int
    """The half-written last line, or 0."""
    compressed: str
    """Why the end of a compressed log is missing, or ``""``."""


class Log:
    """The records of one log, in order.

    A process that is killed leaves a half-written last line: it is counted in `damage`. Any
    other line that is no record is an error.
    """

    def __init__(self, content: Content):
        self._content = content
        self.name = content.name
        self.damage = Damage(0, "")
        self.meta = self._read_meta()

    @classmethod
    def open(cls, path: str) -> Log:
        """Opens a file (plain, .gz or .zst), or standard input for ``-``.

        Raises:
            SpecError: the file cannot be read.
            InputError: it does not begin as a stream log does.
        """
        return cls(standard_input() if path == "-" else Content(path))

    def records(self) -> Iterator[Numbered]:
        """The records after the first, with the numbers of their lines.

        Raises:
            InputError: a line is not JSON.
        """
        reading = self._numbered()
        next(reading)
        return reading

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Where following the records fails, says which of them is not what it should be.

        Raises:
            InputError: one is not.
        """
        try:
            yield
        except UNREADABLE as error:
            found = self._first_fault()
            if found is None:
                raise
            raise found from error

    def refusal(self, number: int, message: str) -> InputError:
        """An error about a whole line."""
        return self._error(self._line(number), number, 0, message)

    def _first_fault(self) -> InputError | None:
        """The first line that is no record of format v1: a pass of its own, for bad logs only."""
        for number, record in self._numbered():
            found = fault(record)
            if found is not None:
                line = self._line(number)
                at = offset_of(line, found.field)
                return self._error(line, number, at, f"want {found.expected}")
        return None

    def _read_meta(self) -> Record:
        first = next(self._numbered(), None)
        if first is None:
            raise self._error("", 1, 0, 'want a stream log, which begins with {"k":"meta","v":1}')
        number, meta = first
        line = self._line(number)
        if not isinstance(meta, dict) or meta.get("k") != "meta":
            raise self._error(
                line, number, 0, 'want a stream log, which begins with {"k":"meta","v":1}'
            )
        found = fault(meta)
        if found is not None:
            at = offset_of(line, found.field)
            raise self._error(line, number, at, f"want {found.expected}")
        if meta["v"] != VERSION:
            what = f"want record format {VERSION}; this log has version {meta['v']}"
            raise self._error(line, number, offset_of(line, "v"), what)
        return meta

    def _numbered(self) -> Iterator[Numbered]:
        decode = json.JSONDecoder().raw_decode
        number = 0
        for lines in self._chunks():
            for line in lines:
                number += 1
                try:
                    record, end = decode(line)
                except (ValueError, RecursionError) as error:
                    if not line or line.isspace():
                        continue
                    record = self._other(line, number, error)
                    if record is None:
                        return
                    end = len(line)
                if end != len(line) and not line[end:].isspace():
                    raise self._error(line, number, end, "want one JSON object a line")
                yield number, record

    def _other(self, line: str, number: int, error: Exception) -> Record | None:
        """A line that does not begin with JSON: indented, or the half-written last one.

        Raises:
            InputError: it is neither.
        """
        stripped = line.lstrip(" \t\r\ufeff")
        if stripped != line:
            try:
                found: Record = json.loads(stripped)
            except (ValueError, RecursionError):
                pass
            else:
                return found
        if number > 1 and self._is_unfinished(line):
            self.damage = Damage(number, self._content.damage)
            return None
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        raise self._error(line, number, at, f"not JSON: {what[:1].lower()}{what[1:]}")

    def _is_unfinished(self, line: str) -> bool:
        data = self._content.data
        tail = data[max(0, len(data) - 4 * len(line) - 4) :].decode("utf-8", "replace")
        return not tail.endswith("\n") and tail.endswith(line)

    def _chunks(self) -> Iterator[list[str]]:
        """The lines of the log, some at a time; none is longer than `LONGEST_LINE`."""
        data = self._content.data
        self.damage = Damage(0, self._content.damage)
        at, size, number = 0, len(data), 1
        while at < size:
            end = min(at + _CHUNK, size)
            if end < size:
                end = data.rfind(b"\n", at, end) + 1 or data.find(b"\n", end, at + LONGEST_LINE) + 1
                if not end:
                    if size - at > LONGEST_LINE:
                        raise self._error("", number, 0, f"a line of over {LONGEST_LINE} bytes")
                    end = size
            text = data[at:end].decode("utf-8", "replace")
            lines = text.split("\n")
            if text.endswith("\n"):
                lines.pop()
            number += len(lines)
            yield lines
            at = end

    def _line(self, number: int) -> str:
        first = 1
        for lines in self._chunks():
            if number < first + len(lines):
                return lines[number - first]
            first += len(lines)
        return ""

    def _error(self, line: str, number: int, at: int, message: str) -> InputError:
        return InputError(message, Location(Source(self.name, line, number), at))
