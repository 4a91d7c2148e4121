"""The dispatch mode: sees every operator that goes through torch's dispatcher in its thread.

It is pushed below all modes that are active, without the flags by which torch.compile would
run its functions eagerly: compiled functions stay compiled, and what they call is seen.
Backward passes take the modes of the thread that calls them along into the engine's threads.
"""

# ruff: noqa: SLF001 - what a recorder reads of torch has private names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.capture.host.patches import Guard, Patches
    from xlagraph.streams.record.recorder import Recorder


def make_mode(recorder: Recorder, guard: Guard) -> Any:
    """A mode that tells the recorder of each operator, and runs it once, whatever happens."""
    torch = sys.modules["torch"]
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = torch._C._disabled_torch_dispatch_impl
    below = torch._C._len_torch_dispatch_stack
    begin, end = recorder.begin, recorder.end

    class Watch(TorchDispatchMode):
        """Passes every operator on."""

        supports_higher_order_operators = True
        records_streams = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Compiled functions are left compiled."""
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            """Records an operator and runs it."""
            kwargs = kwargs or {}
            # Below this mode there are only torch's own, which trace: nothing runs then.
            if not recorder.active or below():
                return func(*args, **kwargs)
            for kind in types:
                if getattr(kind, "__torch_dispatch__", plain) is not plain:
                    # A tensor that stands for others (DTensor, FSDP's): what it calls in
                    # turn comes by here.
                    return NotImplemented
            record = guard.run("operator", begin, func, args, kwargs)
            try:
                result = func(*args, **kwargs)
            except BaseException:
                recorder.abandon()
                raise
            if record is not None:
                guard.run("operator", end, func, record, result)
            return result

    make: Any = Watch
    return make()


def push(mode: Any) -> None:
    """Puts a mode below those that are active in this thread.

    Those are taken off and put back by ``with`` statements of the program, which must find
    theirs on top.
    """
    _restack([mode, *_stack()])


def remove(mode: Any) -> bool:
    """Takes a mode out of this thread's stack, wherever it is; False if it is not there."""
    stack = _stack()
    if not any(one is mode for one in stack):
        return False
    _restack([one for one in stack if one is not mode])
    return True


def _stack() -> list[Any]:
    torch = sys.modules["torch"]
    length = torch._C._len_torch_dispatch_stack()
    found = [torch._C._get_dispatch_stack_at(k) for k in range(length)]
    return [one for one in found if not _has_key(one)]


def _has_key(mode: Any) -> bool:
    """Whether a mode (fake tensors, functionalization) has a place of its own in the stack."""
    return getattr(mode, "_mode_key", None) is not None


def _restack(stack: list[Any]) -> None:
    torch = sys.modules["torch"]
    keyed = sys.modules["torch.utils._python_dispatch"]
    for _ in range(len(_stack())):
        torch._C._pop_torch_dispatch_stack(None)
    for mode in stack:
        keyed._push_mode(mode)


def recording_mode() -> Any:
    """The mode of a recording that is in this thread's stack, or None."""
    return next((one for one in _stack() if getattr(one, "records_streams", False)), None)


def allow_higher_order(patches: Patches, mode: Any) -> None:
    """Lets higher-order operators pass the mode in versions of torch that know no flag for it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    kind = type(mode)

    def wrap(dispatch: Callable[..., Any]) -> Callable[..., Any]:
        def passing(self: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
            table = getattr(self, "python_key_table", None)
            if table is not None and kind not in table:
                table[kind] = lambda _mode, *inner, **named: self(*inner, **named)
            return dispatch(self, key, *args, **kwargs)

        return passing

    patches.replace(sys.modules["torch"]._ops.HigherOrderOperator, "dispatch", wrap)
