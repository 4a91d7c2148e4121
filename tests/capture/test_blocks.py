"""The function around a line, as a capture stores it."""

from __future__ import annotations

import pytest

from xlagraph.capture.places.blocks import MAX_BLOCK, block_around

TEXT = """import random

@cached
def shuffled(parts):
    random.shuffle(parts)
    total = 0

# a note
    for part in parts:
        total += part
    return total

for step in range(3):
    shuffled([1])

print(1)
"""


@pytest.mark.parametrize(
    ("line", "block"),
    [
        (10, range(4, 12)),
        (5, range(4, 12)),
        (4, range(4, 5)),
        (14, range(13, 15)),
        (16, range(16, 17)),
    ],
)
def test_a_line_has_its_function_or_outermost_block(line, block):
    assert block_around(TEXT.splitlines(), line) == block


def test_of_a_long_function_a_part_is_taken():
    lines = ["def f():", *["    x = 1"] * 999]
    block = block_around(lines, 500)
    assert len(block) <= 2 * MAX_BLOCK + 1
    assert 500 in block
