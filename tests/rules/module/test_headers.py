"""What stands in a module's header: told by parameter and output, not by the text."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SUBTRACT = """HloModule m, {header}

ENTRY e {{
  p = f32[4] parameter({p})
  q = f32[4] parameter({q})
  s = f32[4] subtract(p, q)
  u = f32[4] tanh(q)
  ROOT t = (f32[4], f32[4]) tuple(s, u)
}}
"""


def subtract(header, p=0, q=1):
    return read_module(SUBTRACT.format(header=header, p=p, q=q))


def told(a, b):
    """The only cause, which is proved; both directions name its kind."""
    explanation = explain_modules(a, b)
    (cause,) = explanation.causes
    assert explanation.proved
    assert not explanation.diff.same
    assert [c.kind.id for c in explain_modules(b, a).causes] == [cause.kind.id]
    return cause.kind.id, str(cause.title)


@pytest.mark.parametrize(
    ("header", "kind"),
    [("buffer_donor={ (0, {}) }", "donors"), ("input_output_alias={ {0}: (0, {}) }", "alias")],
)
def test_the_same_text_with_permuted_parameters_is_another_tensor(header, kind):
    found, title = told(subtract(header), subtract(header, p=1, q=0))
    assert found == kind
    assert "input 0 (f32[4]) in A only, which is B's 1" in title


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("buffer_donor={ (0, {}) }", "buffer_donor={ (1, {}) }"),
        ("input_output_alias={ {0}: (0, {}) }", "input_output_alias={ {0}: (1, {}) }"),
    ],
)
def test_another_text_with_permuted_parameters_is_the_same_tensor(before, after):
    assert explain_modules(subtract(before), subtract(after, p=1, q=0)).diff.same


def test_buffers_that_go_to_each_others_outputs():
    crossed = [
        f"input_output_alias={{ {{0}}: ({x}, {{}}), {{1}}: ({y}, {{}}) }}" for x, y in ("01", "10")
    ]
    kind, title = told(*map(subtract, crossed))
    assert kind == "alias"
    assert "input 0 (f32[4]) with output 0 (may-alias) in A and output 1 (may-alias) in B" in title


def test_an_alias_that_must_be():
    may, must = (f"input_output_alias={{ {{0}}: (0, {{}}, {k}-alias) }}" for k in ("may", "must"))
    kind, title = told(subtract(may), subtract(must))
    assert kind == "alias"
    assert "output 0 (may-alias) in A and output 0 (must-alias) in B" in title


FLAGS = "allow_spmd_sharding_propagation_to_{}={{{}}}"


@pytest.mark.parametrize(("where", "number"), [("parameters", 2), ("output", 2)])
def test_flags_of_parameters_and_outputs_go_by_position(where, number):
    one, many = (FLAGS.format(where, ",".join(["true"] * n)) for n in (1, number))
    assert explain_modules(subtract(one), subtract(many)).diff.same
    mixed = FLAGS.format(where, "true,false")
    assert told(subtract(many), subtract(mixed))[0] == "sharding"
    back = FLAGS.format(where, "false,true")
    if where == "parameters":
        assert explain_modules(subtract(mixed), subtract(back, p=1, q=0)).diff.same


WAITING = """HloModule m

sum {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}}

ENTRY e {{
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  o = f32[4] all-reduce(p), replica_groups={{}}, to_apply=sum
  u = f32[4] all-reduce(q), replica_groups={{}}, to_apply=sum{wait}
  ROOT t = (f32[4], f32[4]) tuple(o, u)
}}
"""


def test_an_instruction_that_waits_for_another():
    a, b = (read_module(WAITING.format(wait=w)) for w in ("", ", control-predecessors={o}"))
    assert told(a, b) == ("attribute", "all-reduce u waits for nothing in A and for o in B")
