"""Triton kernels, which no dispatcher sees: torch.compile's by name, others as a number."""

# ruff: noqa: SLF001 - what a recorder reads of torch has private names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.imports import when_imported
from xlagraph.streams.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.ranges import Range
    from xlagraph.streams.record.recorder import Recorder

_INDUCTOR = ("torch._inductor.runtime.triton_heuristics", "torch._inductor.triton_heuristics")
_TRITON = "triton.runtime.jit"


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Wraps the launchers, now or when they are imported."""
    for module in _INDUCTOR:
        when_imported(module, lambda module=module: _inductor(module, patches, guard, recorder))  # type: ignore[misc]
    when_imported(_TRITON, lambda: _triton(patches, guard, recorder))


def _inductor(module: str, patches: Patches, guard: Guard, recorder: Recorder) -> None:
    tuner = getattr(sys.modules[module], "CachingAutotuner", None)
    if tuner is None or not recorder.active or getattr(tuner.run, "_xlagraph", False):
        return

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder.active:
                guard.run("triton", _launch, recorder, self, args, kwargs.get("stream"))
            return run(self, *args, **kwargs)

        launched._xlagraph = True  # type: ignore[attr-defined]
        return launched

    patches.replace(tuner, "run", wrap)


def _launch(recorder: Recorder, kernel: Any, args: tuple[Any, ...], stream: int | None) -> None:
    """A compiled kernel: arguments are called ``in_ptr``, ``out_ptr`` and ``in_out_ptr``."""
    changed = set(getattr(kernel, "mutated_arg_names", ()) or ())
    reads: list[Range] = []
    writes: list[Range] = []
    for name, value in zip(kernel.fn.arg_names, args, strict=False):
        for found in recorder.range_of(value):
            writes_it = name.startswith(("out_", "in_out_")) or name in changed
            if writes_it:
                writes.append(found)
            if not name.startswith("out_"):
                reads.append(found)
    name = str(getattr(kernel.fn, "__name__", "kernel"))
    raw = recorder.device.named(stream) if stream is not None else None
    recorder.launched(f"triton.{name}", reads, writes, raw)


def _triton(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Counts launches of kernels that a program has written itself."""
    function = getattr(sys.modules[_TRITON], "JITFunction", None)

    def count() -> None:
        recorder.unseen[Unseen.TRITON] += 1

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            if recorder.active and not kwargs.get("warmup"):
                guard.run("triton", count)
            return run(self, *args, **kwargs)

        return counted

    if function is not None and recorder.active:
        patches.replace(function, "run", wrap)
