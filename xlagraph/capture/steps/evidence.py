"""What is known of a graph that compiled: its text, its cache key, its tensors' names."""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

from math import inf
from typing import Any

from xlagraph.capture.places.analysis import Analysis
from xlagraph.capture.places.lines import are_on
from xlagraph.capture.steps.counters import Ran
from xlagraph.capture.steps.events import CompiledGraph
from xlagraph.capture.tensors.keys import Key, module_key, process_key
from xlagraph.capture.tensors.live import LiveReader, Pending
from xlagraph.capture.tensors.names import TensorNames
from xlagraph.capture.xla_dump.dump import Dump
from xlagraph.capture.xla_dump.modules import DumpedModule, module_name
from xlagraph.run.digest import digest_graph
from xlagraph.tensors import Tensor

_LATE = "XLA's dump could not be switched on any more, and the step was not looked at closely"


class Evidence:
    """Joins XLA's dump, torch_xla's analysis and the live tensors seen before the sync."""

    def __init__(self, xlac: Any, dump: Dump | None, names: TensorNames, ran: Ran) -> None:
        self.dump = dump
        self._xlac = xlac
        self.live = LiveReader(xlac, names)
        self._seconds = ran.compile_seconds()
        self._modules: list[DumpedModule] = []
        self._analyses: list[Analysis] = []
        """Both read from the dump and not yet taken."""

    def keep_room(self) -> None:
        """See to it that XLA can dump what is compiled next.

        Raises:
            OSError: there is no room for temporary files.
        """
        if self.dump is not None:
            self.dump.keep_room()

    @property
    def gives_modules(self) -> bool:
        """Whether XLA's dump has what compiles."""
        return self.dump is not None and self.dump.gives_modules

    def can_afford(self) -> bool:
        """Whether a search of the heap is worth it beside the time spent compiling."""
        return self.live.budget.allows(self._seconds)

    def compile_seconds(self, ran: Ran) -> float:
        """Seconds of compiling since the last call."""
        before, self._seconds = self._seconds, ran.compile_seconds()
        return self._seconds - before if self._seconds >= before else self._seconds  # cleared

    def look(self, waiting: dict[int, Tensor], deep: bool) -> Pending:  # noqa: FBT001 - a fact
        """The pending tensors as a sync begins; lowers them too when there is no dump to read.

        ``deep``: also where each was made, if graphs have lines.
        """
        self.live.with_text = not self.gives_modules
        self.live.with_frames = deep and are_on()
        return self.live.read(waiting)

    def remember(self, waiting: dict[int, Tensor]) -> None:
        """After a sync: what tensors are called now; ``waiting`` names buckets' by id."""
        self.live.remember(waiting)

    def take(self, pending: Pending | None, new: int, ran: Ran) -> tuple[CompiledGraph, ...]:
        """The graphs compiled since the last call; ``new`` of them, if others ran later.

        Raises:
            OSError: the dump folder cannot be read.
        """
        dump = self.dump
        if dump is not None:
            self._modules += dump.modules.take()
            self._analyses += dump.analyses.take() if dump.analyses is not None else []
            dump.end()
        if not self.gives_modules and pending is not None and pending.text:
            self._modules.append(DumpedModule("", pending.text))
        number = None if ran.until == inf else new
        modules, analyses = self._modules[:number], self._analyses[:number]
        del self._modules[:number], self._analyses[:number]
        if not modules:
            return ()
        # torch_xla compiles one module an analysis; other modules (transfers) have none.
        padded = [*analyses, *[None] * (len(modules) - len(analyses))]
        key = process_key()
        with_stacks = are_on()
        return tuple(
            _graph(self._text(one), one.proto if with_stacks else None, analysis, pending, key)
            for one, analysis in zip(modules, padded, strict=False)
        )

    def why_none(self, missing: int) -> str:
        """Why so many compiles have left no module; mends what can be mended.

        Raises:
            OSError: there is no room for temporary files.
        """
        why = _LATE if self.dump is None else self.dump.modules.why_none()
        return f"{missing} compiled without a stored graph: {why}"

    def _text(self, module: DumpedModule) -> bytes:
        if module.text is not None:
            return module.text
        computation = self._xlac._xla_op_computation_from_module_proto("", module.proto)
        text: str = self._xlac._xla_computation_text(computation)
        return text.encode()


def _graph(
    text: bytes,
    proto: bytes | None,
    analysis: Analysis | None,
    pending: Pending | None,
    key: Key,
) -> CompiledGraph:
    placed, agree = pending.placed_in(text) if pending is not None else (None, False)
    return CompiledGraph(
        digest=digest_graph(text, proto),
        module=module_name(text),
        text=text,
        proto=proto,
        analysis=analysis,
        key=module_key(text) + key + (placed.output_key(text) if placed is not None else ()),
        parameters=placed.parameter_tensors(text) if placed is not None else (),
        outputs=placed.output_tensors(text) if placed is not None else (),
        live_tensors=placed.tensors if placed is not None else (),
        tensors_agree=agree,
    )
