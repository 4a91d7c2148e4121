"""A loop that Python unrolls is told by how often it runs, where lines show what it repeats."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

AT = 'metadata={{op_type="op" op_name="op" source_file="train.py" source_line={}}}'
AXES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def loop(turns: int, *, further: str = "", lines: tuple[int, int] = (5, 6)) -> str:
    """A loop of two lines between a first and a last operation."""
    first, second = (AT.format(line) for line in lines)
    body = [f"v0 = f32[4,4] tanh(x), {AT.format(2)}"]
    for k in range(turns):
        body += [
            f"d{k} = f32[4,4] dot(v{k}, w), {AXES}, {first}",
            f"v{k + 1} = f32[4,4] sine(d{k}), {second}",
        ]
    last = f"v{turns}"
    if further:
        body.append(f"more = f32[4,4] {further}({last}), {second}")
        last = "more"
    text = "\n  ".join(body)
    return f"""HloModule m

ENTRY main {{
  x = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  {text}
  ROOT r = f32[4,4] exponential({last}), {AT.format(9)}
}}
"""


def told(a: str, b: str) -> list[str]:
    return [str(cause.in_short) for cause in explain_modules(*map(read_module, (a, b))).causes]


def test_a_loop_of_one_turn_more_is_told_with_both_numbers() -> None:
    assert told(loop(3), loop(4)) == [
        "a piece is repeated 3 times in A and 4 times in B, as by a loop of so many turns"
    ]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (loop(1), loop(2)),  # a function may be called once more
        (loop(3), loop(4, further="cosine")),  # something else comes with it
        (loop(3), loop(3, further="cosine")),
        (loop(3, lines=(5, 5)), loop(4, lines=(5, 5))),
    ],
)
def test_other_pieces_are_no_turns(a: str, b: str) -> None:
    assert not any("repeated" in one for one in told(a, b))
