"""A name for the causes of a pair that fails is left out: the answer stands without it."""

from __future__ import annotations

import pytest

from xlagraph.cause.rule import RuleWarning
from xlagraph.explain import explain_modules, versions
from xlagraph.hlo import read_module

TEXT = """HloModule step

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] OPERATION(x)
  ROOT r = f32[8] multiply(y, x)
}
"""


def told():
    modules = (read_module(TEXT.replace("OPERATION", one)) for one in ("sine", "cosine"))
    return explain_modules(*modules)


def broken(_diff, _causes):
    raise ValueError("zip() argument 2 is shorter than argument 1")


def test_the_answer_stands_without_a_name_that_fails(monkeypatch):
    names = versions._names()
    before = told()
    monkeypatch.setattr(versions, "_names", lambda: (*names, broken))
    with pytest.warns(RuleWarning, match="calling causes by broken failed and is left out"):
        after = told()
    assert str(after.verdict) == str(before.verdict)
    assert after.proved == before.proved
