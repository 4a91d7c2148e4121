"""Calls put in line: the same results in XLA, and no call left."""

from __future__ import annotations

import pytest

from xlagraph.canon.inline import inlined
from xlagraph.diff.same import same_computation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.hlo.verify import problems

CALLS = """HloModule m

pair {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  d = f32[4] subtract(x, y)
  ROOT t = (f32[4], f32[4]) tuple(s, d)
}

twice {
  a = f32[4] parameter(0)
  c = (f32[4], f32[4]) call(a, a), to_apply=pair
  g = f32[4] get-tuple-element(c), index=1
  ROOT r = f32[4] multiply(g, a)
}

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] call(p), to_apply=twice
  ROOT r = f32[4] call(q), to_apply=twice
}
"""
FLAT = """HloModule m

ENTRY e {
  p = f32[4] parameter(0)
  s = f32[4] subtract(p, p)
  m = f32[4] multiply(s, p)
  t = f32[4] subtract(m, m)
  ROOT n = f32[4] multiply(t, m)
}
"""


def nested(depth: int, body: str) -> str:
    """Computations that call each other in a row; with none of them what the last one does."""
    if not depth:
        return "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] negate(p)\n}\n"
    text = f"HloModule m\nc0 {{\n  p = f32[] parameter(0)\n  ROOT r = f32[] {body}\n}}\n"
    for k in range(1, depth):
        text += f"c{k} {{\n  p = f32[] parameter(0)\n"
        text += f"  ROOT r = f32[] call(p), to_apply=c{k - 1}\n}}\n"
    call = f"call(p), to_apply=c{depth - 1}"
    return text + f"ENTRY e {{\n  p = f32[] parameter(0)\n  ROOT r = f32[] {call}\n}}\n"


def test_calls_become_what_they_call():
    flat = inlined(read_module(CALLS))
    assert flat is not None
    assert all("share a name" in problem for problem in problems(flat))
    assert "call" not in flat.opcodes
    assert same_computation(flat, read_module(FLAT))


def test_fifty_thousand_nested_calls_are_explained():
    called, flat = read_module(nested(50_000, "negate(p)")), read_module(nested(0, ""))
    explanation = explain_modules(called, flat)
    assert [str(cause.kind) for cause in explanation.causes] == ["inlined-calls"]
    assert explanation.proved


def test_fifty_thousand_nested_calls():
    flat = inlined(read_module(nested(50_000, "negate(p)")))
    assert flat is not None
    assert list(flat.opcodes) == ["parameter", "negate"]


def test_copies_of_copies_are_given_up():
    """Each computation calls the one before twice, and none has an instruction of its own."""
    text = "HloModule m\nc0 {\n  ROOT p = f32[] parameter(0)\n}\n"
    for k in range(1, 60):
        text += f"c{k} {{\n  p = f32[] parameter(0)\n  q = f32[] call(p), to_apply=c{k - 1}\n"
        text += f"  ROOT r = f32[] call(q), to_apply=c{k - 1}\n}}\n"
    text += "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c59\n}\n"
    assert inlined(read_module(text)) is None


@pytest.mark.parametrize("edge", ["q", "r"])
def test_what_control_edges_tie_stays(edge):
    tied = CALLS.replace(
        "call(q), to_apply=twice", "call(q), to_apply=twice, control-predecessors={q}"
    )
    flat = inlined(read_module(tied))
    assert flat is not None
    assert all("share a name" in problem for problem in problems(flat))
    assert list(flat.opcodes).count("call") == 2
    assert edge in flat.names
