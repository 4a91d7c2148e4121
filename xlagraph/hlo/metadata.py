"""Source positions: ``metadata={...}`` of an instruction, and the stack-frame tables."""

from __future__ import annotations

import re
from functools import lru_cache

from xlagraph.graph import Metadata, SourceFrame, StackTables

_FIELD = re.compile(r"""(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s{}"]+|\{[^{}]*\}))""", re.S)
_ESCAPE = re.compile(r"\\(.)", re.S)
MAX_FRAMES = 1000
"""Frames followed through parent links; Python's own stacks end there. Tables that are wrong
may go in a circle."""


@lru_cache(maxsize=65536)
def _fields(text: str) -> dict[str, str]:
    return {
        key: _ESCAPE.sub(r"\1", quoted) if quoted else bare
        for key, quoted, bare in _FIELD.findall(text)
    }


def read_metadata(text: str, tables: StackTables) -> Metadata:
    """Reads the text between metadata's braces; a stack frame id is resolved in `tables`."""
    fields = _fields(text)
    frame_id = _number(fields.get("stack_frame_id"))
    frames = stack(frame_id, tables) if frame_id else ()
    if not frames and "source_file" in fields:
        frames = (SourceFrame(fields["source_file"], _number(fields.get("source_line"))),)
    return Metadata(fields.get("op_type", ""), fields.get("op_name", ""), frames)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def stack(frame_id: int, tables: StackTables) -> tuple[SourceFrame, ...]:
    """The frames from a numbered one outwards, innermost first; each stack is made once."""
    known = tables.stacks.get(frame_id)
    if known is not None:
        return known
    frames: list[SourceFrame] = []
    number = frame_id
    while number in tables.frames and len(frames) < MAX_FRAMES:
        frame = tables.frames[number]
        location = tables.locations.get(frame.get("file_location_id", 0), {})
        frames.append(
            SourceFrame(
                tables.files.get(location.get("file_name_id", 0), ""),
                location.get("line", 0),
                tables.functions.get(location.get("function_name_id", 0), ""),
            )
        )
        number = frame.get("parent_frame_id", 0)
    return tables.stacks.setdefault(frame_id, tuple(frames))
