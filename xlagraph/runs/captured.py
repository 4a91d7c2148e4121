"""A graph of a run with all that its capture tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.model import Context
    from xlagraph.graph import Module
    from xlagraph.run.reader import Process
    from xlagraph.run.records import GraphRecord, SyncRecord
    from xlagraph.runs.nearest import Histogram


@dataclass(frozen=True, slots=True, eq=False)
class CapturedGraph:
    """One distinct module, and the process and sync that compiled it first."""

    letter: str
    record: GraphRecord
    process: Process
    sync: SyncRecord | None
    module: Module
    histogram: Histogram
    context: Context

    @property
    def step(self) -> int:
        """The step of that sync, as `SyncRecord` counts them."""
        return self.sync.step if self.sync else 0
