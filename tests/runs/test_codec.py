"""Values as plain JSON and back."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_modules import graphs
from report_inputs import explained_pair

from xlagraph.cause.model import Cause, Context
from xlagraph.runs.graphs.sketch import Sketch, sketch_of
from xlagraph.runs.pairs.cache import packed, unpacked
from xlagraph.runs.pairs.codec import CodecError, decode, encode
from xlagraph.runs.pairs.outcome import Outcome, outcome_of

PAIRS = [("carry:D", "carry:E"), ("carry:E", "carry:G"), ("carry:E", "fixed:E")]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_an_outcome_comes_back(pair: tuple[str, str]) -> None:
    whole = outcome_of(explained_pair(*pair), Context(), Context())
    back = unpacked(packed("k", whole), "k", Outcome)
    assert isinstance(back, Outcome)
    assert back.causes == whole.causes
    assert (back.verdict, back.compared, back.proved, back.same) == (
        *(whole.verdict, whole.compared, whole.proved, whole.same),
    )
    assert back.cited_a == whole.cited_a
    assert back.cited_b == whole.cited_b
    assert unpacked(packed("k", whole), "other", Outcome) is None


def test_a_sketch_comes_back() -> None:
    for module in graphs("carry"):
        sketch = sketch_of(module)
        back = decode(Sketch, json.loads(json.dumps(encode(sketch))))
        assert back.histogram() == sketch.histogram()
        assert (back.instructions, back.files) == (sketch.instructions, sketch.files)
        assert (back.replaced, back.interface) == (sketch.replaced, sketch.interface)


@cache
def sample() -> Any:
    outcome = outcome_of(explained_pair("carry:E", "carry:G"), Context(), Context())
    return json.loads(json.dumps(encode(outcome)))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


def places(plain: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(plain, list):
        found += [p for k, one in enumerate(plain[:6]) for p in places(one, (*path, k))]
    elif isinstance(plain, dict):
        found += [p for k, one in plain.items() for p in places(one, (*path, k))]
    return found


@given(st.deferred(lambda: st.sampled_from(places(sample()))), ANYTHING)
@settings(max_examples=300, deadline=None)
def test_forged_data_gives_values_of_the_right_types_or_an_error(
    place: tuple[Any, ...], value: Any
) -> None:
    plain = json.loads(json.dumps({"": sample()}))
    holder: Any = plain
    for key in ("", *place)[:-1]:
        holder = holder[key]
    holder[("", *place)[-1]] = value
    try:
        found = decode(Outcome, plain[""])
    except CodecError:
        return
    assert isinstance(found, Outcome)
    assert all(isinstance(cause, Cause) for cause in found.causes)
    str(found.named("A", "B").verdict)
    [str(cause.title) + str(cause.place.message) for cause in found.causes]
