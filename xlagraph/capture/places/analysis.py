"""What torch_xla prints as it compiles: the cache key and the Python frames of each graph."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_LINE = r"Compilation Analysis: "
_BLOCK = re.compile(
    rf"^{_LINE}Compilation Cause\n((?:{_LINE}(?!=).*\n)*){_LINE}=+\n"
    r"(?:\nComputation hash: (\w+)\n)?",
    re.MULTILINE,
)
_FRAME = re.compile(r"\s*(\S+) \((.*):(\d+)\)$")


@dataclass(frozen=True, slots=True)
class Analysis:
    """One ``Compilation Analysis`` of torch_xla: what it knew as it compiled."""

    cause: str
    graph_hash: str
    computation_hash: str
    """Key of the persistent cache; torch_xla 2.6 and before do not print it."""
    inputs: int
    outputs: int
    frames: tuple[tuple[str, int, str], ...]
    """File, line and function, innermost first."""


class AnalysisFile:
    """A file that torch_xla appends its analyses to, and how far it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0
        self._offset = 0

    def skip(self) -> None:
        """Leave out what others have written so far."""
        if self.path.exists():
            self._inode, self._offset = self.path.stat().st_ino, self.path.stat().st_size

    def take(self) -> list[Analysis]:
        """Analyses appended since the last call.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0  # the folder was moved
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        text = data.decode(errors="surrogateescape")
        found = [_analysis(*block.groups("")) for block in _BLOCK.finditer(text)]
        end = max((block.end() for block in _BLOCK.finditer(text)), default=0)
        self._offset += len(text[:end].encode(errors="surrogateescape"))
        return found


def _analysis(lines: str, computation_hash: str) -> Analysis:
    """The values of one block; its lines begin alike."""
    said = [line.removeprefix(_LINE).strip() for line in lines.splitlines()]
    values = dict(line.split(": ", 1) for line in said if ": " in line)
    return Analysis(
        cause=said[0] if said else "",
        graph_hash=values.get("Graph Hash", ""),
        computation_hash=computation_hash,
        inputs=_number(values.get("Number of Graph Inputs", "")),
        outputs=_number(values.get("Number of Graph Outputs", "")),
        frames=tuple(
            (match[2], int(match[3]), match[1])
            for match in map(_FRAME.match, said)
            if match is not None
        ),
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
