"""What waits in FSDP's reduce-scatter buckets, at each flush and at each sync.

Only the class is patched, so copies and subclasses that override ``flush`` are seen, and
instances are held weakly. Names come from the callbacks' closures: FSDP's callback closes
over its module and the parameter whose gradient waits.
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from xlagraph.capture.host.patches import Guard, Patches
from xlagraph.capture.places.sites import Site, SiteReader
from xlagraph.capture.tensors.backward import Backward, backward_of
from xlagraph.capture.tensors.names import TensorNames, as_it_is, clean_name
from xlagraph.capture.tensors.tensor_shapes import tensor_shape
from xlagraph.run.records import BucketState
from xlagraph.tensors import Role, Tensor

MODULE = "torch_xla.distributed.fsdp.utils"
CLASS = "BucketizedReduceScatter"

Fill = tuple[tuple[int, int], ...]
"""Tensors and bytes of each bucket that holds something."""


def fill_of(states: Iterable[BucketState]) -> Fill:
    """The fill of buckets that were described."""
    return tuple((len(state.tensors), state.watermark_bytes) for state in states)


class _Waiting(NamedTuple):
    """A tensor in a bucket, as its callback tells."""

    owner: str
    """Path of the FSDP module; ``""`` for a callback that is not FSDP's."""
    tensor: Tensor | None
    shape: str


class Buckets:
    """Every live ``BucketizedReduceScatter`` of the process."""

    def __init__(
        self,
        names: TensorNames,
        sites: SiteReader,
        guard: Guard,
        on_flush: Callable[[BucketState, bool], None],
    ) -> None:
        self._names = names
        self._sites = sites
        self._guard = guard
        self._on_flush = on_flush
        self.alive: dict[int, weakref.ref[Any]] = {}
        """By Python ``id``; empty in programs without bucketed reduce-scatter."""
        self._made: dict[int, Site] = {}
        """Where those were made that are alive, as far as it was seen."""
        self._known: weakref.WeakKeyDictionary[Any, _Waiting] = weakref.WeakKeyDictionary()
        """By callback: what waits over many steps is read once."""
        self._wrapped: set[type] = set()
        self._depth = 0
        self._patches = Patches()
        self.armed = True
        """Whether flushes are described; the buckets at a sync always are."""

    def install(self) -> None:
        """Patch the class, which ``torch_xla.distributed.fsdp.utils`` has defined."""
        bucket_class = getattr(sys.modules[MODULE], CLASS)
        self._patches.replace(bucket_class, "__init__", self._wrap_init)
        self._wrap_flush(bucket_class)

    def uninstall(self) -> None:
        """Put the classes back."""
        self._patches.undo()
        self._wrapped.clear()

    def _wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def init(bucket: Any, *arguments: Any, **options: Any) -> None:
            original(bucket, *arguments, **options)
            self._guard.run("fsdp", self._register, bucket, sys._getframe(1))

        return init

    def _register(self, bucket: Any, caller: FrameType) -> None:
        self._remember(bucket)
        self._made[id(bucket)] = self._sites.read(caller)[0]
        for bucket_class in type(bucket).__mro__:
            if "flush" in bucket_class.__dict__:
                self._wrap_flush(bucket_class)

    def _remember(self, bucket: Any) -> None:
        number = id(bucket)
        if number not in self.alive:
            alive, made = self.alive, self._made

            def forget(_: object) -> None:
                alive.pop(number, None)
                made.pop(number, None)

            alive[number] = weakref.ref(bucket, forget)

    def _alive(self) -> list[Any]:
        found = [reference() for reference in list(self.alive.values())]
        return [bucket for bucket in found if bucket is not None]

    def _wrap_flush(self, bucket_class: type) -> None:
        if bucket_class in self._wrapped:
            return
        self._wrapped.add(bucket_class)
        self._patches.replace(bucket_class, "flush", self._make_flush)

    def _make_flush(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def flush(bucket: Any, *arguments: Any, **options: Any) -> Any:
            # A subclass's flush calls its base's: the outermost is the one to describe.
            if not self.armed or self._depth or not bucket.bucket:
                return original(bucket, *arguments, **options)
            before = self._guard.run("fsdp", self.describe, bucket)
            self._depth += 1
            try:
                return original(bucket, *arguments, **options)
            finally:
                self._depth -= 1
                if before is not None:
                    self._guard.run("fsdp", self._on_flush, before, not bucket.bucket)

        return flush

    def fill(self) -> Fill:
        """How full the buckets are that hold something now; 0.5 us for each bucket.

        Under equal graphs equal fill means equal tensors: what waits is part of the graph.
        """
        found = []
        for reference in list(self.alive.values()):
            bucket = reference()
            if bucket is not None and bucket.bucket:
                found.append((len(bucket.bucket), bucket.bucket_watermark))
        return tuple(found)

    def waiting(self) -> tuple[BucketState, ...]:
        """The buckets that hold tensors now, and what keeps them from being emptied."""
        return tuple([self._describe_whole(one) for one in self._alive() if one.bucket])

    def _describe_whole(self, bucket: Any) -> BucketState:
        state = self.describe(bucket)
        modules = (_closed_over(one, "self")[0] for one in bucket.callbacks)
        module = next((one for one in modules if one is not None), None)
        path = "" if module is None else self._names.settled_module(module)
        backward = self._guard.run("backward", backward_of, module, path) or Backward()
        return replace(
            state,
            hooks=backward.hooks,
            hooks_left=backward.hooks_left,
            without_gradient=backward.missing,
            made=self._made.get(id(bucket), ()),
        )

    def waiting_tensors(self) -> dict[int, Tensor]:
        """The tensors in buckets, by Python ``id``: to be used at once and dropped.

        A callback that waits holds the whole gradient besides the flat one in the bucket.
        """
        found: dict[int, Tensor] = {}
        for bucket in self._alive():
            known = self.describe(bucket).tensors
            for waits, callback, tensor in zip(
                bucket.bucket, bucket.callbacks, known, strict=False
            ):
                if tensor is not None:
                    for held in _closed_over(callback, "grad", "grad_flat"):
                        found[id(held)] = replace(tensor, role=Role.HELD)
                    found[id(waits)] = replace(tensor, role=Role.WAITING)
        return found

    def waiting_ids(self) -> dict[int, Tensor]:
        """The tensors in buckets by torch_xla id."""
        xla_id = sys.modules["_XLAC"]._xla_get_tensor_id
        return {
            xla_id(as_it_is(waits)): replace(tensor, role=Role.WAITING)
            for bucket in self._alive()
            for waits, tensor in zip(bucket.bucket, self.describe(bucket).tensors, strict=False)
            if tensor is not None
        }

    def describe(self, bucket: Any) -> BucketState:
        """The bucket's contents, from host data only."""
        self._remember(bucket)
        found = [
            self._waits(tensor, callback)
            for tensor, callback in zip(bucket.bucket, bucket.callbacks, strict=False)
        ]
        return BucketState(
            bucket=next((one.owner for one in found if one.owner), "") or self._ordinal(bucket),
            tensors=tuple([one.tensor for one in found]),
            shapes=tuple([one.shape for one in found]),
            watermark_bytes=int(bucket.bucket_watermark),
            capacity_bytes=int(bucket.bucket_size_bytes),
            callbacks=len(bucket.callbacks),
        )

    def _waits(self, tensor: Any, callback: Any) -> _Waiting:
        is_function = isinstance(callback, FunctionType)  # others may not be fit for a key
        if is_function and (known := self._known.get(callback)) is not None:
            return known
        shape = tensor_shape(tensor)
        module, parameter = _closed_over(callback, "self", "param")
        owner = self._module_name(module) if module is not None else ""
        one = _Waiting(owner, self._parameter(module, parameter), shape)
        if is_function:
            self._known[callback] = one
        return one

    def _ordinal(self, bucket: Any) -> str:
        return f"{type(bucket).__name__} {list(self.alive).index(id(bucket))}"

    def _module_name(self, module: Any) -> str:
        return self._names.settled_module(module) or "root"

    def _parameter(self, module: Any, parameter: Any) -> Tensor | None:
        """The FSDP module and its own parameter, whose gradient waits."""
        shard = getattr(parameter, "_sharded_param", parameter)
        own = getattr(shard, "_orig_name", "")
        if not own:
            return None
        return Tensor(self._module_name(module), clean_name(own), Role.BUCKET, shard=True)


def _closed_over(callback: Any, *names: str) -> list[Any]:
    """What ``reduce_scatter_done``'s closure holds under each of ``names``, else None."""
    code = getattr(callback, "__code__", None)
    cells = getattr(callback, "__closure__", None)
    if code is None or cells is None:
        return [None] * len(names)
    held = dict(zip(code.co_freevars, cells, strict=True))
    return [_contents(held.get(name)) for name in names]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents if cell is not None else None
    except ValueError:  # the cell is empty
        return None
