"""Stream logs for tests: real ones from fixtures, and written ones."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlagraph.content import Content
from xlagraph.streams.analyze import analyze
from xlagraph.streams.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.streams.model import Analysis

FIXTURES = Path(__file__).parents[2] / "fixtures" / "streams"

Record = dict[str, Any]


def real(name: str) -> Log:
    """A log that was recorded on a GPU."""
    return Log.open(str(FIXTURES / f"{name}.jsonl.zst"))


def real_records(name: str) -> list[Record]:
    """The records of a real log after the first, without creations."""
    return [r for _, r in real(name).records() if r["k"] not in ("st_new", "ev_new", "ev_del")]


def log_of(records: Iterable[Record], **meta: object) -> Log:
    """A log with these records."""
    lines = [{"k": "meta", "v": 1, **meta}, *records]
    return log_from_text("".join(json.dumps(line) + "\n" for line in lines))


def log_from_text(text: str | bytes) -> Log:
    """A log with this content."""
    data = text.encode() if isinstance(text, str) else text
    return Log(Content("test.jsonl", io.BytesIO(data)))


def analysis_of(records: Iterable[Record], **meta: object) -> Analysis:
    """What is said about a log with these records."""
    return analyze(log_of(records, **meta))


class Writer:
    """Writes the records of a small program, one call a record; thread 1, stream 0 by default."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._number = 0

    def add(self, kind: str, **fields: object) -> None:
        """One record; ``t`` is 1 where it is not given."""
        self.records.append({"k": kind, "t": 1, **fields})

    def op(
        self,
        name: str,
        s: int = 0,
        r: Iterable[tuple[int, ...]] = (),
        w: Iterable[tuple[int, ...]] = (),
        **fields: object,
    ) -> int:
        """An operator; ranges are given without their device."""
        self._number += 1
        reads, writes = ([[0, *item] for item in items] for items in (r, w))
        self.add("op", i=self._number, s=s, op=name, r=reads, w=writes, **fields)
        return self._number

    def made(self, name: str, p: int, n: int, s: int = 0, **fields: Any) -> None:
        """An operator that allocates its output and writes it."""
        number = self.op(name, s, **fields)
        thread = {"t": fields["t"]} if "t" in fields else {}
        self.add("alloc", p=p, n=n, s=s, at=f"alloc of {name}", **thread)
        self.add("out", i=number, s=s, w=[[0, p, n]], **thread)

    def cross(self, source: int, target: int, e: int = 99) -> None:
        """``target.wait_stream(source)``."""
        self.add("record", e=e, s=source)
        self.add("wait", e=e, s=target)

    def analysis(self, **meta: object) -> Analysis:
        """What is said about the program."""
        return analysis_of(self.records, **meta)
