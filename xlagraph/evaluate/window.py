"""Windows that move over an array (``window={...}``), and the places of their elements."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.evaluate.step import Array, Step

_FIELD = re.compile(r"(\w+)=([\dx_\-]+)")
MAX_PADDED = 8_000_000
"""Elements of an array with its padding."""


class Window(NamedTuple):
    """A window: one entry of each field for each dimension."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    base_dilation: tuple[int, ...]
    dilation: tuple[int, ...]
    is_reversed: tuple[bool, ...]

    def places(self) -> Iterator[tuple[int, ...]]:
        """The places of the window's elements, row-major."""
        return product(*map(range, self.size))

    def dilated(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes with holes between the elements."""
        return tuple(
            (n - 1) * d + 1 if n else 0 for n, d in zip(sizes, self.base_dilation, strict=True)
        )

    def outputs(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """At how many places the window fits, by dimension."""
        found = []
        for k, n in enumerate(self.dilated(sizes)):
            reach = (self.size[k] - 1) * self.dilation[k] + 1
            room = n + self.low[k] + self.high[k] - reach
            found.append(room // self.stride[k] + 1 if room >= 0 else 0)
        return tuple(found)

    def cut(self, padded: Array, place: Sequence[int], outputs: Sequence[int]) -> Array:
        """What one element of the window meets, wherever the window stands."""
        parts = []
        for k, at in enumerate(place):
            start, step = at * self.dilation[k], self.stride[k]
            parts.append(slice(start, start + step * (outputs[k] - 1) + 1, step))
        return padded[tuple(parts)] if all(outputs) else padded[tuple(slice(0) for _ in outputs)]


def read_window(step: Step) -> Window:
    """The window of an instruction.

    Raises:
        NotEvaluatedError: it is not as long as it should be.
    """
    fields = dict(_FIELD.findall(step.text("window")))
    size = tuple(map(int, filter(None, fields.get("size", "").split("x"))))
    rank = len(size)

    def each(name: str, default: int) -> tuple[int, ...]:
        text = fields.get(name)
        found = tuple(map(int, text.split("x"))) if text else (default,) * rank
        if len(found) != rank or min((1, *found)) < min(default, 1):
            raise step.not_evaluated(f"{name} does not fit its window")
        return found

    pads = (
        [tuple(map(int, p.split("_"))) for p in fields["pad"].split("x")] if "pad" in fields else []
    )
    pads = pads or [(0, 0)] * rank
    if len(pads) != rank or min((1, *size)) < 1:
        raise step.not_evaluated("its padding does not fit its window")
    return Window(
        size,
        each("stride", 1),
        tuple(pad[0] for pad in pads),
        tuple(pad[1] for pad in pads),
        each("lhs_dilate", 1),
        each("rhs_dilate", 1),
        tuple(map(bool, each("rhs_reversal", 0))),
    )


def padded(
    step: Step,
    x: Array,
    value: Array,
    low: Sequence[int],
    high: Sequence[int],
    holes: Sequence[int],
) -> Array:
    """An array with padding around it and holes between its elements, both of one value.

    Negative padding cuts away (XLA's ``Pad``).
    """
    spread = [(n - 1) * (h + 1) + 1 if n else 0 for n, h in zip(x.shape, holes, strict=True)]
    sizes = [n + lo + hi for n, lo, hi in zip(spread, low, high, strict=True)]
    room = [n + max(lo, 0) + max(hi, 0) for n, lo, hi in zip(spread, low, high, strict=True)]
    if min((0, *sizes)) < 0 or min((0, *holes)) < 0 or prod(room) > MAX_PADDED:
        raise step.not_evaluated("its padding is too large")
    made = np.full(room, value, x.dtype)
    inner = tuple(
        slice(max(lo, 0), max(lo, 0) + n, h + 1)
        for n, lo, h in zip(spread, low, holes, strict=True)
    )
    made[inner] = x
    return made[
        tuple(slice(max(-lo, 0), max(-lo, 0) + n) for n, lo in zip(sizes, low, strict=True))
    ]
