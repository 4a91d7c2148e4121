"""What a program makes longer in one place is the size of an input in others."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from xlagraph.message import SourceLine
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.runs.causes.growth import growing_inputs

GROWS, USED = SourceLine("t.py", 77, "refine"), SourceLine("t.py", 89, "train")


def graphs(name, kind, line, site, sizes):
    """Graphs of one place, each of which cites an input of a size, and of the one before it."""
    for old, new in pairwise(sizes):
        outcome = SimpleNamespace(
            causes=(SimpleNamespace(kind=kind, lines=(line,)),),
            first_a=SimpleNamespace(shape=f"f32[{old},1]"),
            first_b=SimpleNamespace(shape=f"f32[{new},1]"),
        )
        yield SimpleNamespace(
            digest=f"{name}{new}",
            nearest=f"{name}{old}",
            warm_up=False,
            explanation=outcome,
            call_site=SourceLine("t.py", site, "main"),
        )


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ((64, 72, 80, 88), {"used72", "used80", "used88"}),
        ((64, 72, 80), set()),
        ((32, 36, 40, 44), set()),
    ],
    ids=["as long", "twice", "another length"],
)
def test_an_input_that_is_as_long_as_what_grew_elsewhere_belongs_to_that(sizes, told):
    grown = list(graphs("grown", GROWING_INPUT, GROWS, 79, (64, 72, 80, 88)))
    used = list(graphs("used", INPUT_SHAPE, USED, 93, sizes))
    turns = SimpleNamespace(in_a_row=set())
    found = growing_inputs([*grown, *used], turns)
    assert {digest for digest in found if digest.startswith("used")} == told
    assert set(found.values()) == {GROWS}
