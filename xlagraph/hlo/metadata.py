"""Source positions: ``metadata={...}`` of an instruction, and the stack-frame tables."""

from __future__ import annotations

import re
from functools import lru_cache

from xlagraph.graph import Metadata, SourceFrame, StackTables

_FIELD = re.compile(r"""(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s{}"]+|\{[^{}]*\}))""", re.S)
_ESCAPE = re.compile(r"\\(.)", re.S)
MAX_FRAMES = 64
"""Frames followed through parent links; a cycle in a hostile table ends there."""


@lru_cache(maxsize=65536)
def _fields(text: str) -> dict[str, str]:
    return {
        key: _ESCAPE.sub(r"\1", quoted) if quoted else bare
        for key, quoted, bare in _FIELD.findall(text)
    }


def read_metadata(text: str, tables: StackTables) -> Metadata:
    """Reads the text between metadata's braces; a stack frame id is resolved in `tables`."""
    fields = _fields(text)
    frames: list[SourceFrame] = []
    frame_id = _number(fields.get("stack_frame_id"))
    if frame_id:
        frames = _stack(frame_id, tables)
    if not frames and "source_file" in fields:
        frames = [SourceFrame(fields["source_file"], _number(fields.get("source_line")))]
    return Metadata(fields.get("op_type", ""), fields.get("op_name", ""), tuple(frames))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _stack(frame_id: int, tables: StackTables) -> list[SourceFrame]:
    frames: list[SourceFrame] = []
    while frame_id in tables.frames and len(frames) < MAX_FRAMES:
        frame = tables.frames[frame_id]
        location = tables.locations.get(frame.get("file_location_id", 0), {})
        frames.append(
            SourceFrame(
                tables.files.get(location.get("file_name_id", 0), ""),
                location.get("line", 0),
                tables.functions.get(location.get("function_name_id", 0), ""),
            )
        )
        parent = frame.get("parent_frame_id", 0)
        if parent == frame_id:
            break
        frame_id = parent
    return frames
