"""Ranges of tensors against the bytes that their elements really have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.oracle import bytes_of

from xlagraph.streams.format import IRREGULAR
from xlagraph.streams.record.ranges import Ranges
from xlagraph.streams.strided import shape_range

torch = pytest.importorskip("torch")

DIMENSIONS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40)), min_size=0, max_size=4)


def elements(sizes: list[int], strides: list[int]) -> set[int]:
    """Offsets of the elements, by brute force."""
    found = {0}
    for size, stride in zip(sizes, strides, strict=True):
        found = {at + k * stride for at in found for k in range(size)}
    return found


@settings(max_examples=500, deadline=None)
@given(DIMENSIONS, st.sampled_from([1, 2, 4, 8]))
def test_a_range_is_the_bytes_of_the_elements(dimensions: list[tuple[int, int]], item: int) -> None:
    sizes = [size for size, _ in dimensions]
    strides = [stride for _, stride in dimensions]
    wanted = {at * item + byte for at in elements(sizes, strides) for byte in range(item)}
    found = list(shape_range(sizes, strides, item))
    if len(found) == 4 and found[2] == IRREGULAR:
        assert (0, max(wanted) + 1) == (0, found[0])  # a bounding box, and said to be one
    else:
        assert bytes_of([0, 0, *found]) == wanted


@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda x: x, 1),
        (lambda x: x.t(), 1),
        (lambda x: x[2:5], 1),
        (lambda x: x[0, 3:], 1),
        (lambda x: x[:, 3:5], 4),
        (lambda x: x[:, ::2], 4),
        (lambda x: x[::2], 4),
        (lambda x: x.expand(3, 8, 8), 1),
        (lambda x: x[0, 0].expand(1000), 1),
        (lambda x: x.view(2, 4, 8)[:, :, 1:3].permute(2, 0, 1), 4),
        (lambda x: x.unfold(0, 3, 1), 1),
        (lambda x: x.contiguous(memory_format=torch.contiguous_format), 1),
    ],
)
def test_common_views_are_exact(make: object, length: int) -> None:
    base = torch.arange(64, dtype=torch.float32).view(8, 8)
    view = make(base)  # type: ignore[operator]
    found = Ranges().of(view, 0)
    assert found is not None
    assert len(found) == 2 + length
    touched = {
        base.data_ptr() + at * 4 + byte
        for at in view.reshape(-1).long().tolist()
        for byte in range(4)
    }
    assert bytes_of(found) == touched


def test_tensors_without_bytes_have_no_range() -> None:
    ranges = Ranges()
    assert ranges.of(torch.empty(0, 3), 0) is None
    assert ranges.of(torch.empty(3, device="meta"), 0) is None
