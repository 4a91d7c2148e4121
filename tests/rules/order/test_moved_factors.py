"""A factor that one side multiplies onto another value than the other side does."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

BLOCKS = 2


def scaled(name: str, source: str, shape: str) -> str:
    return f"""  {name}_s = {shape} broadcast(scale), dimensions={{}}
  {name} = {shape} multiply({source}, {name}_s)
"""


def attention(onto: str, *, rows: int = 6, activation: str = "tanh") -> str:
    """Scores of queries with keys; the scale goes onto the queries or onto the scores."""
    parts, queries = [], f"f32[{rows},4]"
    scores = f"f32[{rows},5]"
    for k in range(BLOCKS):
        source = f"o{k - 1}" if k else "x"
        q, s = (f"q{k}_scaled", f"s{k}") if onto == "queries" else (f"q{k}", f"s{k}_scaled")
        parts.append(f"  q{k} = {queries} cosine({source})\n")
        parts.append(scaled(q, f"q{k}", queries) if onto == "queries" else "")
        parts.append(
            f"  s{k} = {scores} dot({q}, keys), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={1}\n"
        )
        parts.append(scaled(s, f"s{k}", scores) if onto == "scores" else "")
        parts.append(
            f"  e{k} = {scores} exponential({s})\n  o{k} = {queries} dot(e{k}, keys), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        )
    return f"""HloModule attention

ENTRY main {{
  x = {queries} parameter(0)
  keys = f32[5,4] parameter(1)
  scale = f32[] parameter(2)
{"".join(parts)}  ROOT out = {queries} {activation}(o{BLOCKS - 1})
}}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_scale_at_another_place_is_one_cause(turned: bool):
    texts = [attention("scores"), attention("queries")]
    explanation = explain_modules(*map(read_module, reversed(texts) if turned else texts))
    (cause,) = explanation.causes
    assert cause.proved
    side, other = "BA" if turned else "AB"
    title = str(cause.title)
    assert title.startswith("a factor is multiplied at another place: input 2 (f32[]) onto ")
    assert f"s0 (f32[6,5]) in {side}" in title
    assert f"q0 (f32[6,4]) in {other}" in title
    assert title.endswith(", at 2 places")


def test_what_differs_beside_it_is_told_for_itself():
    a, b = attention("scores"), attention("queries", activation="negate")
    explanation = explain_modules(read_module(a), read_module(b))
    assert explanation.proved
    first, second = explanation.causes
    assert "at another place" in str(first.title)
    assert "negate" in str(second.title)


def test_other_sizes_are_no_other_place():
    a, b = attention("scores"), attention("scores", rows=9)
    explanation = explain_modules(read_module(a), read_module(b))
    assert explanation.proved
    assert [cause.kind.id for cause in explanation.causes] == ["input-shape"]
