"""What is advised for a size, and at which line: of data, and of a list that is joined."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Cause
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def cause_of(first: str, second: str) -> Cause:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    (cause,) = explanation.causes
    return cause


SENT = """HloModule sent

ENTRY main {
  x = TYPE[8,SIZE] parameter(0)
  ROOT y = TYPE[8,SIZE] add(x, x)
}
"""


@pytest.mark.parametrize(
    ("of_type", "may_be_weight"), [("s64", False), ("s8", True), ("f32", True)]
)
def test_tokens_and_indices_are_no_weight(of_type: str, may_be_weight: bool):
    text = SENT.replace("TYPE", of_type)
    cause = cause_of(text.replace("SIZE", "30"), text.replace("SIZE", "39"))
    assert cause.kind.id == "input-shape"
    assert ("For a weight" in str(cause.fix)) == may_be_weight


def joined(number: int) -> str:
    """Tensors that line 9 joins, and from which line 3 takes something of the same size."""
    names = [f"x{k}" for k in range(number)]
    inputs = "".join(f"  {name} = f32[4] parameter({k})\n" for k, name in enumerate(names))
    size = 4 * number
    return f"""HloModule joined

ENTRY main {{
{inputs}  c = f32[{size}] concatenate({", ".join(names)}), dimensions={{0}},
    metadata={{op_type="aten__cat" source_file="t.py" source_line=9}}
  h = f32[] constant(0.5)
  w = f32[{size}] broadcast(h), dimensions={{}},
    metadata={{op_type="aten__sub" source_file="t.py" source_line=3}}
  m = f32[{size}] multiply(w, w)
  ROOT r = (f32[{size}], f32[{size}]) tuple(c, m)
}}
"""


@pytest.mark.parametrize("number", [2, 24, 31, 300])
def test_a_longer_list_is_cited_where_it_is_joined(number: int):
    cause = cause_of(joined(number), joined(number + 1))
    assert "number of tensors joined" in str(cause.in_short)
    assert str(cause.place.line) == "t.py:9"


def test_a_row_of_numbers_beside_a_longer_list_follows_from_it():
    """As the labels that a loss counts are compared with one for each tensor that is joined."""
    rows = """\
  i = f32[1,SIZE] iota(), iota_dimension=1, metadata={source_file="t.py" source_line=3}
  j = f32[SIZE] reshape(i)
  ROOT r = f32[SIZE] multiply(c, j)
}
"""
    texts = [
        joined(number).partition("  h = ")[0] + rows.replace("SIZE", str(4 * number))
        for number in (5, 6)
    ]
    cause = cause_of(*texts)
    assert "number of tensors joined" in str(cause.in_short)
    assert str(cause.place.line) == "t.py:9"


def scaled(shape: str, spread: str) -> str:
    """A step that updates a scale of all values, or of each row."""
    return f"""HloModule scaled

ENTRY main {{
  x = f32[4,8] parameter(0)
  w = {shape} parameter(1)
  g = f32[4,8] broadcast(w), dimensions={{{spread}}}
  y = f32[4,8] multiply(x, g)
  n = {shape} tanh(w)
  ROOT r = (f32[4,8], {shape}) tuple(y, n)
}}
"""


def test_a_weight_with_more_axes_is_no_batch_to_be_padded():
    found = explain_modules(read_module(scaled("f32[]", "")), read_module(scaled("f32[4]", "0")))
    assert found.proved
    assert str(found.verdict.fix) == "Keep one form of each weight; a change costs one compile."
    assert len(found.verdict.notes) == 0  # how it is spread follows from it


def filled(number: int) -> str:
    """Ones in the first elements of a row, as torch_xla assigns them to a slice."""
    rest = 8 - number
    return f"""HloModule filled

ENTRY main {{
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  zero = f32[] constant(0)
  true = pred[] constant(true)
  false = pred[] constant(false)
  v = f32[{number}] broadcast(one), dimensions={{}}
  p = f32[8] pad(v, zero), padding=0_{rest}
  t = pred[{number}] broadcast(true), dimensions={{}}
  m = pred[8] pad(t, false), padding=0_{rest}
  ROOT s = f32[8] select(m, p, x)
}}
"""


def test_a_span_that_is_assigned_to_is_told_without_lines():
    cause = cause_of(filled(3), filled(5))
    assert str(cause.in_short) == "the span that is assigned to changes from step to step"


def test_what_is_padded_and_added_is_no_assignment():
    first, second = (filled(n).replace("select(m, p, x)", "add(p, x)") for n in (3, 5))
    cause = cause_of(first, second)
    assert "assigned" not in str(cause.in_short)


def unrolled(rows: int, *, of_input: bool) -> str:
    """A loop over the rows of an input, or over as many numbers, that joins what it computes."""
    body, value = [], "z"
    inputs = (
        "" if of_input else "".join(f"  s{k} = f32[1] parameter({k + 2})\n" for k in range(rows))
    )
    for k in range(rows):
        taken = f"f32[1] slice(x), slice={{[{k}:{k + 1}]}}" if of_input else f"f32[1] copy(s{k})"
        body += [f"  r{k} = {taken}", f"  v{k} = f32[1] add({value}, r{k})"]
        value = f"v{k}"
    text, names = "\n".join(body), ", ".join(f"v{k}" for k in range(rows))
    size = rows if of_input else 2
    return f"""HloModule unrolled

ENTRY main {{
  x = f32[{size}] parameter(0)
  z = f32[1] parameter(1)
{inputs}{text}
  c = f32[{rows}] concatenate({names}), dimensions={{0}}
  t = f32[{size}] tanh(x)
  ROOT r = (f32[{rows}], f32[{size}]) tuple(c, t)
}}
"""


@pytest.mark.parametrize("of_input", [True, False])
def test_a_loop_over_rows_is_told_by_the_rows_and_not_as_a_list(of_input: bool):
    texts = (unrolled(rows, of_input=of_input) for rows in (4, 6))
    verdict = explain_modules(*map(read_module, texts)).verdict
    is_of_rows = (
        "a list joins one tensor for each row of an input: 4 -> 6" in str(verdict.what).lower()
    )
    assert is_of_rows == of_input
    assert (str(verdict.fix) == "Pad the input to one length, with a mask.") == of_input
