"""See the reads of a tensor's value that run its graph: ``.item()``, printing, ``if``.

A tensor that was computed already, such as the last step's loss that a logging thread reads
while the next step runs, is read without further ado. The others reach torch_xla through C++
alone, so the Python methods of ``torch.Tensor`` that lead there are hooked. ``.to()`` is not: a
model calls it at every cast. A read that no hook saw shows as counters that moved between two
hooks, and is recorded as ``unseen``.
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from xlagraph.capture.host.patches import Patches
from xlagraph.capture.host.warned import install_warned
from xlagraph.capture.tensors.names import is_plain

if TYPE_CHECKING:
    from xlagraph.capture.steps.hooks import Hooks

METHODS = (
    "item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__complex__",
    "__index__", "__repr__", "__format__", "__contains__", "__array__", "__reduce_ex__",
    "__deepcopy__",
)  # fmt: skip
ALONE = frozenset(
    ("item", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__")
)
"""Those that take no arguments: to pass none on saves a third of what a hook costs."""


def install_values(hooks: Hooks) -> Patches:
    """Hook ``torch.Tensor``'s reading methods; the result puts them back."""
    patches = Patches()
    install_warned(patches)
    tensor_class = sys.modules["torch"].Tensor
    for name in METHODS:
        if patches.replace(tensor_class, name, _maker(hooks, name)):
            hooked = tensor_class.__dict__[name]
            # Pickled by this name, and read where there is no capture.
            hooked.__module__, hooked.__qualname__ = (
                tensor_class.__module__,
                f"{tensor_class.__name__}.{name}",
            )
    return patches


def _maker(hooks: Hooks, name: str) -> Callable[[Any], Any]:
    torch = sys.modules["torch"]
    plain = frozenset((torch.Tensor, torch.nn.Parameter))
    modes = torch._C._len_torch_function_stack

    def is_elsewhere(tensor: Any) -> bool:
        with torch._C.DisableTorchFunction():  # the mode would be asked even for this
            return not tensor.is_xla

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        watched = _watched(hooks, name, original)

        # A subclass has code of its own that even the question for the device would reach.
        def hooked(tensor: Any, *arguments: Any, **options: Any) -> Any:
            if type(tensor) not in plain or (
                is_elsewhere(tensor) if modes() else not tensor.is_xla
            ):
                return original(tensor, *arguments, **options)
            return watched(sys._getframe(1), tensor, *arguments, **options)

        def hooked_alone(tensor: Any) -> Any:
            if type(tensor) not in plain or (
                is_elsewhere(tensor) if modes() else not tensor.is_xla
            ):
                return original(tensor)
            return watched(sys._getframe(1), tensor)

        return hooked_alone if name in ALONE else hooked

    return make


def _watched(hooks: Hooks, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The method with its hook, for XLA tensors; takes the caller's frame first."""
    before, end, guard = hooks.before, hooks.end, hooks.guard
    needs = sys.modules["_XLAC"]._check_tensor_need_materialization
    only_reads = name != "__contains__"  # which compares first

    def is_computed(tensor: Any) -> bool:
        return is_plain(tensor) and not needs([tensor])[0]

    def watched(caller: FrameType, tensor: Any, *arguments: Any, **options: Any) -> Any:
        if only_reads and guard.run("value", is_computed, tensor):
            return original(tensor, *arguments, **options)
        call = guard.run("value", before, "value", name, caller)
        if call is None:
            return original(tensor, *arguments, **options)
        try:
            return original(tensor, *arguments, **options)
        finally:
            end("value", call)

    hooks.watches(watched)
    return watched
