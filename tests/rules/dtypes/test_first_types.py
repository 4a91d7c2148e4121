"""A stretch in another type is told with the value in which its types differ first."""

from __future__ import annotations

from xlagraph.cause.case import Case
from xlagraph.cause.finding import Finding
from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module
from xlagraph.rules.dtypes.dtype_stretch import RULE

WEAK = """HloModule jit_step

ENTRY main {
  gain = f32[] parameter(0)
  x = f32[4] parameter(1)
  h = bf16[4] convert(x)
  n = bf16[] convert(gain)
  w = bf16[4] broadcast(n), dimensions={}
  m = bf16[4] multiply(h, w)
  t = bf16[4] tanh(m)
  ROOT r = f32[4] convert(t)
}
"""
STRONG = """HloModule jit_step

ENTRY main {
  gain = f32[] parameter(0)
  x = f32[4] parameter(1)
  h = bf16[4] convert(x)
  s = f32[4] convert(h)
  w = f32[4] broadcast(gain), dimensions={}
  m = f32[4] multiply(s, w)
  ROOT t = f32[4] tanh(m)
}
"""
ARRAY = STRONG.replace("  h = bf16[4] convert(x)\n  s = f32[4] convert(h)\n", "").replace(
    "multiply(s, w)", "multiply(x, g)"
).replace("  m =", "  g = f32[4] cosine(w)\n  m =")  # fmt: skip
HALF_ARRAY = ARRAY.replace("  g = f32[4] cosine(w)\n  m = f32[4] multiply(x, g)", """\
  g = f32[4] cosine(w)
  h = bf16[4] convert(x)
  k = bf16[4] convert(g)
  m = bf16[4] multiply(h, k)""").replace("ROOT t = f32[4] tanh", "t = bf16[4] tanh").replace(
    "\n}", "\n  ROOT r = f32[4] convert(t)\n}"
)  # fmt: skip


def finding(first: str, second: str) -> Finding:
    diff = diff_modules(read_module(first, "a"), read_module(second, "b"))
    (found,) = RULE.find(Case.of(diff))
    return found


def test_a_number_that_is_converted_on_one_side_is_named_with_its_fix():
    found = finding(WEAK, STRONG)
    assert str(found.title).endswith("(bf16 -> f32) from input 0 (f32[]) on")
    assert str(found.short) == "input 0 (f32[]) is converted to bf16 in A only"
    assert "weakly typed" in str(found.fix)
    assert "gain" in str(found.evidence[1].text)
    assert str(finding(STRONG, WEAK).short) == "input 0 (f32[]) is converted to bf16 in B only"


def test_where_arrays_are_converted_no_number_is_blamed():
    found = finding(HALF_ARRAY, ARRAY)
    assert str(found.title).endswith("(bf16 -> f32)")
    assert "weakly" not in str(found.fix)
    assert "the types differ first at m of" in str(found.evidence[1].text)


def test_a_number_of_a_program_without_jax_gets_no_advice_on_weak_types():
    first, second = (text.replace("jit_step", "IrToHlo.7") for text in (WEAK, STRONG))
    assert "weakly" not in str(finding(first, second).fix)
