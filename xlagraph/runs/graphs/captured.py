"""A graph of a run with what its capture tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.facts.training.named_inputs import with_inputs_named
from xlagraph.runs.graphs.context import context_of

if TYPE_CHECKING:
    from xlagraph.cause.model import Context
    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame, GraphRecord, SyncRecord
    from xlagraph.runs.graphs.sketch import Sketch


@dataclass(frozen=True, slots=True, eq=False)
class CapturedGraph:
    """One distinct module, the process that tells of it, and the sync that compiled it there."""

    letter: str
    record: GraphRecord
    process: Process
    sync: SyncRecord | None
    sketch: Sketch

    @property
    def step(self) -> int:
        """The step of that sync, as `SyncRecord` counts them."""
        return self.sync.step if self.sync else 0

    @property
    def site(self) -> tuple[Frame, ...]:
        """The call site of that sync, innermost first; empty where there is none."""
        return self.sync.call_site if self.sync else ()

    def context(self) -> Context:
        """What the capture knows of it, as the explanations take it; made anew each time."""
        known = context_of(self.process, self.record)
        return with_inputs_named(known, dict(self.sketch.replaced))
