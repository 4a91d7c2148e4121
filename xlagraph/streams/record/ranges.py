"""The bytes of a tensor, as a range of format v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlagraph.streams.format import IRREGULAR

if TYPE_CHECKING:
    from collections.abc import Sequence

Range = list[int]


def shape_range(sizes: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, ...]:
    """What a tensor covers from its first element on.

    ``(bytes,)`` where it has no gaps, else ``(extent, run, stride, count)`` in bytes; a stride
    of -1 stands for what is more irregular than runs at one distance.
    """
    run = 1
    gaps: list[tuple[int, int]] = []
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1 or stride == 0:
            continue
        if not gaps and stride <= run:
            run += (size - 1) * stride
        elif gaps and stride == gaps[-1][0] * gaps[-1][1]:
            gaps[-1] = gaps[-1][0], gaps[-1][1] * size
        else:
            gaps.append((stride, size))
    if not gaps:
        return (run * item,)
    extent = (run + sum(stride * (size - 1) for stride, size in gaps)) * item
    if len(gaps) == 1:
        stride, count = gaps[0]
        return extent, run * item, stride * item, count
    return extent, run * item, IRREGULAR, 1


class Ranges:
    """Ranges of tensors; what a shape covers is computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def of(self, tensor: Any, device: int) -> Range | None:
        """The range of a tensor on a device; None if it has no memory or no elements.

        Raises:
            RuntimeError, NotImplementedError: the tensor is of a kind without a data pointer.
        """
        number: int = tensor.numel()
        if not number:
            return None
        pointer: int = tensor.data_ptr()
        if not pointer:
            return None
        item: int = tensor.element_size()
        if tensor.is_contiguous():
            return [device, pointer, number * item]
        key = (tensor.shape, tensor.stride(), item)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = shape_range(*key)
        return [device, pointer, *known]

    def some_of(self, tensor: Any, device: int) -> Range | None:
        """The bounding box of a tensor of which some elements are accessed.

        Raises:
            RuntimeError, NotImplementedError: as `of`.
        """
        found = self.of(tensor, device)
        if found is None:
            return None
        return [*found[:3], tensor.element_size(), IRREGULAR, 1]
