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
