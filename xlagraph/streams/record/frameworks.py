"""Frameworks with buckets of their own: where a reduction begins and ends, and its name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.imports import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder

_DEEPSPEED = "deepspeed.runtime.zero.stage_1_and_2"


def install(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """Wraps what is imported, now or later."""
    when_imported(_DEEPSPEED, lambda: _deepspeed(patches, guard, recorder))


def _deepspeed(patches: Patches, guard: Guard, recorder: Recorder) -> None:
    """ZeRO 1 and 2: ``average_tensor`` reduces a bucket, or one extra-large gradient."""
    optimizer = getattr(sys.modules[_DEEPSPEED], "DeepSpeedZeroOptimizer", None)
    if optimizer is None or not recorder.active:
        return

    def wrap(average: Callable[..., Any]) -> Callable[..., Any]:
        def averaged(self: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return average(self, tensor, *args, **kwargs)
            name = "extra-large gradient" if _is_extra_large(self, tensor) else "ipg bucket"
            guard.run("buckets", recorder.mark, "reduce_begin", [tensor], bucket=name)
            try:
                return average(self, tensor, *args, **kwargs)
            finally:
                guard.run("buckets", recorder.mark, "reduce_end")

        return averaged

    patches.replace(optimizer, "average_tensor", wrap)


def _is_extra_large(optimizer: Any, tensor: Any) -> bool:
    """Whether a gradient is reduced that was too large for the bucket, and was never in it."""
    large = getattr(optimizer, "extra_large_param_to_reduce", None)
    values = large.values() if isinstance(large, dict) else (large,)
    gradients = (getattr(one, "grad", None) for one in values if one is not None)
    return any(one is not None and one.data_ptr() == tensor.data_ptr() for one in gradients)
