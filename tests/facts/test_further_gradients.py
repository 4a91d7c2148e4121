"""Gradients that flow through a value on one side alone, told by JAX's names of derivatives."""

from __future__ import annotations

import pytest

from xlagraph.cause.case import Case
from xlagraph.diff import diff_modules
from xlagraph.facts.pieces.regions import parts_of, region_of
from xlagraph.facts.training.further_gradients import flows_further
from xlagraph.hlo import read_module
from xlagraph.message import B

STEP = """HloModule step

norm {{
  v = f32[4,6] parameter(0)
  ROOT s = f32[4,6] {function}(v)
}}

jvp_norm {{
  v = f32[4,6] parameter(0)
  s = f32[4,6] sqrt(v)
  d = f32[4,6] rsqrt(v)
  ROOT t = (f32[4,6], f32[4,6]) tuple(s, d)
}}

ENTRY main {{
  x = f32[4,6] parameter(0)
  h = f32[4,6] exponential(x), metadata={{op_name="jit(step)/jvp()/exp"}}
{before}
  y = f32[4,6] divide(h, n), metadata={{op_name="jit(step)/jvp()/div"}}
{chain}
  g = f32[4,6] sine(c39), metadata={{op_name="jit(step)/transpose(jvp())/mul"}}
{after}
  ROOT u = f32[4,6] multiply(k, h), metadata={{op_name="jit(step)/transpose(jvp())/mul"}}
}}
"""
CHAIN = "\n".join(f"  c{k} = f32[4,6] tanh({f'c{k - 1}' if k else 'y'})" for k in range(40))
CALL = 'metadata={op_name="jit(step)/jvp(jit(norm))"}'
BACK = 'metadata={op_name="jit(step)/transpose(jvp())/mul"}'
CUT = (
    f"  n = f32[4,6] call(h), to_apply=norm, {CALL}",
    f"  k = f32[4,6] negate(g), {BACK}",
)
FLOWS = (
    (
        f"  r = (f32[4,6], f32[4,6]) call(h), to_apply=jvp_norm, {CALL}\n"
        f"  n = f32[4,6] get-tuple-element(r), index=0, {CALL}\n"
        f"  d = f32[4,6] get-tuple-element(r), index=1, {CALL}"
    ),
    (
        f"  m = f32[4,6] multiply(g, d), {BACK}\n"
        f"  q = f32[4,6] add(m, g), {BACK}\n"
        f"  k = f32[4,6] negate(q), {BACK}"
    ),
)


def step(pieces: tuple[str, str], function: str = "sqrt") -> str:
    return STEP.format(function=function, before=pieces[0], after=pieces[1], chain=CHAIN)


@pytest.mark.parametrize(("function", "side"), [("sqrt", B), ("cbrt", None)])
def test_the_forward_pass_has_to_be_the_same_whatever_is_called(function, side):
    texts = step(CUT, function), step(FLOWS, function)
    case = Case.of(diff_modules(*map(read_module, texts)))
    region = region_of(case)
    assert region is not None
    found = [flows_further(case, part) for part in parts_of(case, region)]
    assert {view and view.side for view in found} == {side}
