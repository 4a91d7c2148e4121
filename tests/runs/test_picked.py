"""Functions that one loop of a step calls, others from step to step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.runs.causes.picked import picked

TEXT = """def flip(x):
    return x.flip(-1)
def noise(x):
    return x + 1
def crop(x):
    return x[1:]
def augment(x, chosen):
    for one in chosen:
        x = one(x)
    return x
def train(batches):
    for x in batches:
        step(augment(x, draw()))
"""
FILE = "t.py"
LINES = dict(enumerate(TEXT.splitlines(), 1))
LINE_OF = {"flip": 2, "noise": 4, "crop": 6}


def causes(names: list[str], *, calls: int = 9):
    """Graphs of which each has a piece of one function, called there and by the training loop."""
    for number, name in enumerate(names):
        stack = (
            SourceLine(FILE, LINE_OF[name], name),
            SourceLine("torch/nn/modules/module.py", 7, "_call_impl"),
            SourceLine(FILE, calls, "augment" if calls == 9 else "train"),
            SourceLine(FILE, 13, "train"),
        )
        yield SimpleNamespace(digest=str(number)), SimpleNamespace(place=Place(stack[0], stack))


def test_functions_of_one_loop_are_one_reason():
    program = ProgramText({FILE: LINES}, frozenset({(FILE, 12)}))
    found = picked(causes(["flip", "noise", "flip", "crop"]), program)
    assert set(found) == {"0", "1", "2", "3"}
    assert {one.loop for one in found.values()} == {SourceLine(FILE, 8, "augment")}
    assert {one.functions for one in found.values()} == {("crop", "flip", "noise")}


@pytest.mark.parametrize(
    ("names", "calls", "program"),
    [
        (["flip", "noise", "flip"], 9, ProgramText({FILE: LINES}, frozenset({(FILE, 12)}))),
        (["flip", "noise", "crop"], 13, ProgramText({FILE: LINES}, frozenset({(FILE, 12)}))),
        (["flip", "noise", "crop"], 9, ProgramText()),
    ],
    ids=["too few functions", "the loop of the training itself", "no text"],
)
def test_other_pieces_keep_their_own_reasons(names, calls, program):
    assert picked(causes(names, calls=calls), program) == {}
