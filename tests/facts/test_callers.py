"""Where a called computation is reached from."""

from xlagraph.explain import explain_modules
from xlagraph.facts.calls.callers import callers_of
from xlagraph.hlo import read_module

SHARED = """HloModule m
inner {
  ROOT p = f32[] parameter(0)
}
outer {
  p = f32[] parameter(0)
  q = f32[] call(p), to_apply=inner
  ROOT r = f32[] call(q), to_apply=inner
}
lone {
  ROOT p = f32[] parameter(0)
}
ENTRY e {
  p = f32[] parameter(0)
  ROOT r = f32[] call(p), to_apply=outer
}
"""


def test_callers_are_found_by_computation():
    module = read_module(SHARED)
    named = {
        module.computations[c].name: [module.names[i] for i in calls]
        for c, calls in module.callers.items()
    }
    assert named == {"inner": ["q", "r"], "outer": ["r"]}


def test_the_first_call_stands_for_all():
    module = read_module(SHARED)
    inner, outer, lone = (
        next(c.index for c in module.computations if c.name == name)
        for name in ("inner", "outer", "lone")
    )
    assert [module.names[i] for i, _ in callers_of(module, inner)] == ["q", "r"]
    assert [c for _, c in callers_of(module, inner)] == [inner, outer]
    assert callers_of(module, lone) == []


def test_a_change_below_many_calls_is_told_in_one_sentence():
    calls = "".join(
        f"c{k} {{\n  p = f32[] parameter(0)\n  ROOT r{k} = f32[] call(p), to_apply=c{k - 1}\n}}\n"
        for k in range(1, 2_000)
    )
    text = (
        "HloModule m\nc0 {\n  p = f32[] parameter(0)\n  ROOT o = f32[] negate(p)\n}\n"
        + calls
        + "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c1999\n}\n"
    )
    other = text.replace("negate(p)", "tanh(p)")
    explanation = explain_modules(read_module(text), read_module(other))
    (cause,) = explanation.causes
    assert explanation.proved
    told = [str(line.text) for line in cause.evidence]
    assert any(line.endswith(" and 1984 more") for line in told)
