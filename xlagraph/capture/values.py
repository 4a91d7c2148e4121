"""See the reads of a tensor's value that run its graph: ``.item()``, printing, ``if``.

A tensor that was computed already, such as the last step's loss that a logging thread reads
while the next step runs, is read without further ado. The others reach torch_xla through C++
alone, so the Python methods of ``torch.Tensor`` that lead there are hooked. ``.to()`` is not: a
model calls it at every cast. A read that no hook saw shows as counters that moved between two
hooks, and is recorded as ``unseen``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlagraph.capture.names import is_plain
from xlagraph.capture.patches import Patches

if TYPE_CHECKING:
    from xlagraph.capture.hooks import Hooks

METHODS = (
    "item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__complex__",
    "__index__", "__repr__", "__format__", "__contains__", "__array__", "__reduce_ex__",
    "__deepcopy__",
)  # fmt: skip


def install_values(hooks: Hooks) -> Patches:
    """Hook ``torch.Tensor``'s reading methods; the result puts them back."""
    patches = Patches()
    kind = sys.modules["torch"].Tensor
    for name in METHODS:
        patches.replace(kind, name, _maker(hooks, name))
    return patches


def _maker(hooks: Hooks, name: str) -> Callable[[Any], Any]:
    before, end, guard = hooks.before, hooks.end, hooks.guard
    needs = sys.modules["_XLAC"]._check_tensor_need_materialization  # noqa: SLF001
    only_reads = name != "__contains__"  # which compares first

    def is_computed(tensor: Any) -> bool:
        return is_plain(tensor) and not needs([tensor])[0]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def hooked(tensor: Any, *arguments: Any, **options: Any) -> Any:
            if not tensor.is_xla or (only_reads and guard.run("value", is_computed, tensor)):
                return original(tensor, *arguments, **options)
            call = guard.run("value", before, "value", name, sys._getframe(1))  # noqa: SLF001
            if call is None:
                return original(tensor, *arguments, **options)
            try:
                return original(tensor, *arguments, **options)
            finally:
                end("value", call)

        return hooked

    return make
