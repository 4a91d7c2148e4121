"""The ``HloModule`` line and the numbered tables of source positions behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location
from xlagraph.graph import StackTables
from xlagraph.hlo.attributes import parse_fields
from xlagraph.hlo.scan import MalformedError, name_at, skip_space

if TYPE_CHECKING:
    from xlagraph.errors import Source

_HEADER = re.compile(r"HloModule(?=[\s%/])")
_TABLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)(?![\w.\-])")
_NUMBER = re.compile(r"\d{1,9}(?![\d\w])")
_CELL = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|\{([^{}]*+)\}', re.S)
_PAIR = re.compile(r"(\w+)\s*+=\s*+(\d{1,9})(?!\d)")
_ESCAPE = re.compile(r"\\(.)", re.S)

HeaderFields = tuple[tuple[str, str], ...]


def read_header(source: Source) -> tuple[str, HeaderFields, StackTables, int]:
    """Module name (``""`` without a header), header fields, tables, and the offset behind.

    Raises:
        InputError: the header is malformed.
    """
    text = source.text
    start = skip_space(text, 0)
    header = _HEADER.match(text, start)
    name, pos = "", start
    fields: HeaderFields = ()
    if header:
        at = skip_space(text, header.end())
        named = name_at(text, at)
        if not named:
            raise InputError("expected the module's name", Location(source, at))
        name, pos = named
        try:
            found, pos = parse_fields(text, pos, len(text))
        except MalformedError as error:
            raise InputError(str(error), Location(source, error.offset)) from None
        fields = tuple((field.key, text[field.start : field.end]) for field in found)
    tables, pos = _read_tables(text, skip_space(text, pos))
    return name, fields, tables, pos


def _read_tables(text: str, pos: int) -> tuple[StackTables, int]:
    names: dict[str, dict[int, str]] = {"FileNames": {}, "FunctionNames": {}}
    rows: dict[str, dict[int, dict[str, int]]] = {"FileLocations": {}, "StackFrames": {}}
    while table := _TABLE.match(text, pos):
        pos = skip_space(text, table.end())
        while row := _NUMBER.match(text, pos):
            cell = _CELL.match(text, skip_space(text, row.end()))
            if not cell:
                break
            pos = skip_space(text, cell.end())
            number = int(row[0])
            if table[1] in names:
                names[table[1]][number] = _ESCAPE.sub(r"\1", cell[1] or "")
            else:
                pairs = _PAIR.findall(cell[2] or "")
                rows[table[1]][number] = {key: int(value) for key, value in pairs}
    for frame in rows["StackFrames"].values():
        # XLA prints the number plus one, so that a frame without a parent has 1 (hlo_module.cc).
        frame["parent_frame_id"] = max(frame.get("parent_frame_id", 0) - 1, 0)
    found = StackTables(
        names["FileNames"], names["FunctionNames"], rows["FileLocations"], rows["StackFrames"]
    )
    return found, pos
