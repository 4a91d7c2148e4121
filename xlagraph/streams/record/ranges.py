"""The bytes of a tensor, as a range of format v1."""

from __future__ import annotations

from typing import Any

from xlagraph.streams.format import IRREGULAR
from xlagraph.streams.strided import shape_range

Range = list[int]


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
