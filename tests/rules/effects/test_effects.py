"""What acts on the world: in another order, on another thread, or on one side only."""

from __future__ import annotations

import pytest
from hlo_helpers import FIXTURES

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def causes(a: str, b: str) -> list[tuple[str, str]]:
    """Kind and title of each cause; all are proved, and both directions name the same kinds."""
    one, other = read_module(a, "a"), read_module(b, "b")
    there, back = explain_modules(one, other), explain_modules(other, one)
    assert there.proved
    assert back.proved
    assert not there.diff.same
    assert not there.unexplained_a
    assert not there.unexplained_b
    assert [c.kind for c in there.causes] == [c.kind for c in back.causes]
    return [(str(c.kind), str(c.title)) for c in there.causes]


ORDER = """HloModule m
s {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  p = f32[4] parameter(0)
  x = f32[4] all-reduce(p), channel_id=1, replica_groups={{0,1}}, to_apply=s
  y = f32[4] all-reduce(p), channel_id=2, replica_groups={{0},{1}}, to_apply=s
  ROOT t = (f32[4], f32[4]) tuple(x, y)
}
"""


def turned(text: str, first: str, second: str) -> str:
    """The text with two of its lines, by how they begin, in each other's place."""
    lines = text.split("\n")
    j, k = (next(n for n, line in enumerate(lines) if line.startswith(s)) for s in (first, second))
    lines[j], lines[k] = lines[k], lines[j]
    return "\n".join(lines)


def test_channel_collectives_in_another_order():
    ((kind, title),) = causes(ORDER, turned(ORDER, "  x", "  y"))
    assert kind == "effect-order"
    assert title == "1 instruction with effects (all-reduce) comes in another order"


def test_outputs_and_collectives_in_another_order():
    """The order of outputs alone is no reason for that of collectives."""
    other = turned(ORDER, "  x", "  y").replace("tuple(x, y)", "tuple(y, x)")
    found = causes(ORDER, other)
    assert sorted(kind for kind, _ in found) == ["effect-order", "output-order"]


def test_a_channel_that_is_shared():
    ((kind, title),) = causes(ORDER, ORDER.replace("channel_id=2", "channel_id=1"))
    assert kind == "attribute"
    assert "channel_id" in title


OUTFEED = """HloModule m
c {
  p = f32[4] parameter(0)
  t = token[] after-all()
  ROOT o = token[] outfeed(p, t)
}
ENTRY e {
  p = f32[4] parameter(0)
  k = token[] call(p), to_apply=c
  ROOT r = f32[4] add(p, p)
}
"""


def test_an_outfeed_inside_of_a_call():
    ((kind, title),) = causes(OUTFEED, OUTFEED.replace("  k = token[] call(p), to_apply=c\n", ""))
    assert kind == "extra-effect"
    assert title == "A runs o (outfeed) for its effect, and B does not"


def test_an_outfeed_inside_of_a_loop_that_both_have():
    text = """HloModule m
b {
  p = f32[4] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(p, t)
  ROOT n = f32[4] negate(p)
}
c {
  p = f32[4] parameter(0)
  ROOT q = pred[] constant(false)
}
ENTRY e {
  p = f32[4] parameter(0)
  ROOT w = f32[4] while(p), condition=c, body=b
}
"""
    ((kind, title),) = causes(text, text.replace("  o = token[] outfeed(p, t)\n", ""))
    assert kind == "extra-effect"
    assert "in the body of w" in title


@pytest.mark.parametrize("old", ['"side"', '"main"'])
def test_execution_threads(old):
    text = (FIXTURES / "dialects" / "execution_thread.hlo").read_text()
    assert '"side"' in text
    found = causes(text.replace('"side"', old), text.replace('"side"', '"other"'))
    assert [kind for kind, _ in found] == ["execution-thread"]


def test_an_asked_for_layout_beside_another_cause():
    text = (
        "HloModule m, entry_computation_layout={{(f32[4,8]{})->f32[4,8]{{1,0}}}}\nENTRY e {{\n"
        "  p = f32[4,8]{{1,0}} parameter(0)\n  k = f32[] constant({})\n"
        "  b = f32[4,8]{{1,0}} broadcast(k), dimensions={{}}\n"
        "  ROOT r = f32[4,8]{{1,0}} multiply(p, b)\n}}\n"
    )
    found = causes(text.format("{1,0}", 2), text.format("{0,1}", 3))
    assert sorted(kind for kind, _ in found) == ["constant-value", "layout"]


def chained(first: int, second: int) -> str:
    """Two buckets of two tensors, reduced one after the other; a token orders them."""
    text = """HloModule m
s {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  token = f32[] parameter(0)
  x1 = f32[8,4] parameter(1)
  y1 = f32[8] parameter(2)
  x2 = f32[6,3] parameter(3)
  y2 = f32[6] parameter(4)
  u1 = f32[8,4] reverse(x1), dimensions={0}
  v1 = f32[8] reverse(y1), dimensions={0}
  u2 = f32[6,3] reverse(x2), dimensions={0}
  v2 = f32[6] reverse(y2), dimensions={0}
"""
    sizes = {1: ("8,4", "8"), 2: ("6,3", "6")}
    token = "token"
    for k in (first, second):
        one, other = sizes[k]
        shape = f"(f32[{one}], f32[{other}], f32[])"
        text += f"  c{k} = {shape} all-reduce(u{k}, v{k}, {token}), to_apply=s\n"
        for index, (name, part) in enumerate((("r", one), ("q", other), ("t", ""))):
            text += f"  {name}{k} = f32[{part}] get-tuple-element(c{k}), index={index}\n"
        text += f"  n{k} = f32[{one}] subtract(x{k}, r{k})\n"
        text += f"  m{k} = f32[{other}] subtract(y{k}, q{k})\n"
        token = f"t{k}"
    shape = "(f32[8,4], f32[8], f32[6,3], f32[6])"
    return text + f"  ROOT t = {shape} tuple(n1, m1, n2, m2)\n}}\n"


def test_chained_buckets_in_another_order_hold_no_other_tensors():
    ((kind, title),) = causes(chained(1, 2), chained(2, 1))
    assert kind == "effect-order"
    assert title == "2 all-reduces of the same tensors come in another order"
