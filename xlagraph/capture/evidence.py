"""What is known of a graph that compiled: its text, its cache key, its tensors' names."""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import os
from math import inf
from typing import Any

from xlagraph.capture.counters import Ran
from xlagraph.capture.dump import Analysis, Dump, Module, module_name
from xlagraph.capture.events import CompiledGraph
from xlagraph.capture.keys import Key, module_key, process_key
from xlagraph.capture.live import LiveReader, Pending
from xlagraph.capture.names import Names
from xlagraph.run.writer import digest_text
from xlagraph.tensors import Tensor


class Evidence:
    """Joins XLA's dump, torch_xla's analysis and the live tensors seen before the sync."""

    def __init__(self, xlac: Any, dump: Dump | None, names: Names, ran: Ran) -> None:
        self.dump = dump
        self._xlac = xlac
        self.live = LiveReader(xlac, names)
        self._seconds = ran.compile_seconds()
        self._modules: list[Module] = []
        self._analyses: list[Analysis] = []
        """Both read from the dump and not yet taken."""

    def can_afford(self) -> bool:
        """Whether a search of the heap is worth it beside the time spent compiling."""
        return self.live.budget.allows(self._seconds)

    def compile_seconds(self, ran: Ran) -> float:
        """Seconds of compiling since the last call."""
        before, self._seconds = self._seconds, ran.compile_seconds()
        return self._seconds - before if self._seconds >= before else self._seconds  # cleared

    def look(self, waiting: dict[int, Tensor]) -> Pending:
        """The pending tensors as a sync begins; lowers them too when there is no dump."""
        self.live.with_text = self.dump is None
        self.live.with_frames = bool(self._xlac._get_ir_debug())
        return self.live.read(waiting)

    def remember(self, waiting: dict[int, Tensor]) -> None:
        """After a sync: what tensors are called now; ``waiting`` names buckets' by id."""
        self.live.remember(waiting)

    def take(self, pending: Pending | None, new: int, ran: Ran) -> tuple[CompiledGraph, ...]:
        """The graphs compiled since the last call; ``new`` of them, if others ran later.

        Raises:
            OSError: the dump folder cannot be read.
        """
        if self.dump is None:
            if pending is None or not pending.text:
                return ()
            modules = [Module("", module_name(pending.text), pending.text)]
            analyses: list[Analysis] = []
        else:
            self._modules += self.dump.take_modules()
            self._analyses += self.dump.take_analyses()
            number = None if ran.until == inf else new
            modules, analyses = self._modules[:number], self._analyses[:number]
            del self._modules[:number], self._analyses[:number]
            if modules:  # XLA and torch_xla have read their variables: no child is to dump here
                self.dump.restore(os.environ)
        # torch_xla compiles one module an analysis; other modules (transfers) have none.
        padded = [*analyses, *[None] * (len(modules) - len(analyses))]
        key = process_key(self._xlac)
        return tuple(
            _graph(module, analysis, pending, key)
            for module, analysis in zip(modules, padded, strict=False)
        )


def _graph(
    module: Module, analysis: Analysis | None, pending: Pending | None, key: Key
) -> CompiledGraph:
    text = module.text
    placed, agree = pending.placed_in(text) if pending is not None else (None, False)
    return CompiledGraph(
        digest=digest_text(text),
        module=module.name,
        text=text,
        analysis=analysis,
        key=module_key(text) + key + (placed.output_key(text) if placed is not None else ()),
        parameters=placed.parameter_tensors(text) if placed is not None else (),
        outputs=placed.output_tensors(text) if placed is not None else (),
        live_tensors=placed.tensors if placed is not None else (),
        tensors_agree=agree,
    )
