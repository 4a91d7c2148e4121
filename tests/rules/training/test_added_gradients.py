"""Gradients without names that one micro-batch stores and the next adds to."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """HloModule step

ENTRY main {
  x = f32[3,8] parameter(0)
  w = f32[8,4] parameter(1)
  v = f32[4,5] parameter(2)
  y = f32[3,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[3,4] tanh(y)
  z = f32[3,5] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[3,5] sine(z)
  gv = f32[4,5] dot(h, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  b = f32[3,4] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  gw = f32[8,4] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
"""
FIRST = HEAD + "  ROOT r = (f32[3,5], f32[4,5], f32[8,4]) tuple(z, gv, gw)\n}\n"
NEXT = (
    HEAD
    + """  ov = f32[4,5] parameter(3)
  ow = f32[8,4] parameter(4)
  sv = f32[4,5] add(ov, gv)
  sw = f32[8,4] add(ow, gw)
  ROOT r = (f32[3,5], f32[4,5], f32[8,4]) tuple(z, sv, sw)
}
"""
)


def told(first: str, second: str) -> list[tuple[str, str]]:
    explanation = explain_modules(read_module(first, "m"), read_module(second, "m"))
    assert explanation.proved
    return [(cause.kind.id, str(cause.in_short)) for cause in explanation.causes]


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_first_batch_has_no_gradients_to_add_to(is_turned: bool) -> None:
    one, other = "AB" if is_turned else "BA"
    short = f"{one} adds to the gradients of an earlier batch, {other} has none of these"
    pair = (NEXT, FIRST) if is_turned else (FIRST, NEXT)
    assert told(*pair) == [("accumulated-gradient", short)]


@pytest.mark.parametrize(
    "other",
    [
        NEXT.replace("add(o", "multiply(o"),
        NEXT.replace("sv = f32[4,5] add(ov, gv)", "sv = f32[4,5] add(ov, sv2)").replace(
            "  sv =", "  sv2 = f32[4,5] tanh(gv)\n  sv ="
        ),  # A keeps no tanh
        NEXT.replace("ov = f32[4,5]", "ov = f32[3,5]")
        .replace("sv = f32[4,5] add(ov, gv)", "sv = f32[3,5] add(ov, z)")
        .replace("tuple(z, sv, sw)", "tuple(sv, gv, gw)"),
    ],
)
def test_other_inputs_are_no_gradients(other: str) -> None:
    explanation = explain_modules(read_module(FIRST, "m"), read_module(other, "m"))
    assert all("of an earlier batch" not in str(cause.in_short) for cause in explanation.causes)


def test_a_cut_stays_a_cut() -> None:
    """What is added to comes from within: it is computed on the way."""
    inner = NEXT.replace("  ov = f32[4,5] parameter(3)\n", "  ov = f32[4,5] cosine(z)\n")
    inner = inner.replace("  ow = f32[8,4] parameter(4)\n", "  ow = f32[8,4] cosine(gw)\n")
    assert "accumulated-gradient" not in [kind for kind, _ in told(FIRST, inner)]


def test_gradients_are_added_where_backward_is_called() -> None:
    """What clips them takes the sums, and its line is theirs where nothing else ran them."""
    clip = 'metadata={source_file="train.py" source_line=30}'
    tables = """HloModule step

FileNames
1 "train.py"
2 "/env/site-packages/torch/autograd/__init__.py"

FunctionNames
1 "main"
2 "_make_grads"

FileLocations
1 {file_name_id=1 function_name_id=1 line=28 end_line=28 column=1 end_column=1}
2 {file_name_id=2 function_name_id=2 line=190 end_line=190 column=1 end_column=1}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

"""
    seed = "  one = f32[] constant(1), metadata={stack_frame_id=2}\n"
    seed += "  wide = f32[3,5] broadcast(one), dimensions={}\n"

    def called(text: str) -> str:
        text = text.replace("HloModule step\n", tables)
        text = text.replace("  d = f32[3,5] sine(z)", f"{seed}  d = f32[3,5] multiply(z, wide)")
        return text.replace("add(ov, gv)", f"add(ov, gv), {clip}")

    explanation = explain_modules(*(read_module(called(one), "m") for one in (FIRST, NEXT)))
    (cause,) = explanation.causes
    assert (cause.kind.id, cause.place.line and cause.place.line.line) == (
        "accumulated-gradient",
        28,
    )
