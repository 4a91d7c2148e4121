"""Which values within a module count, told by giving them others."""

from __future__ import annotations

import pytest

from xlagraph.evaluate.influence import all_count
from xlagraph.hlo import read_module

ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,3}"
)
TEXT = """HloModule hidden

ENTRY %main (p: f32[6], q: s32[2], t: f32[4,3]) -> (f32[6], f32[2,3]) {
  %p = f32[6]{0} parameter(0)
  %q = s32[2]{0} parameter(1)
  %t = f32[4,3]{1,0} parameter(2)
  %s = f32[6]{0} sine(f32[6]{0} %p)
  %c = f32[6]{0} cosine(f32[6]{0} %p)
  %low = f32[] constant(-3)
  %high = f32[] constant(3)
  %far = f32[] constant(1e+30)
  %fars = f32[6]{0} broadcast(f32[] %far), dimensions={}
  %beyond = f32[6]{0} add(f32[6]{0} %s, f32[6]{0} %fars)
  %held = f32[6]{0} clamp(f32[] %low, f32[6]{0} %beyond, f32[] %high)
  %sum = f32[6]{0} add(f32[6]{0} %held, f32[6]{0} %c)
  %next = s32[2]{0} add(s32[2]{0} %q, s32[2]{0} %q)
  %rows = f32[2,3]{1,0} gather(f32[4,3]{1,0} %t, s32[2]{0} %next), ROWS
  ROOT %all = (f32[6]{0}, f32[2,3]{1,0}) tuple(f32[6]{0} %sum, f32[2,3]{1,0} %rows)
}
""".replace("ROWS", ROWS)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("c", True), ("sum", True), ("next", True), ("rows", True), ("s", False)],
)
def test_a_value_counts_unless_a_bound_hides_it(name, counts):
    module = read_module(TEXT)
    assert all_count(module, [module.names.index(name)]) is counts


def test_what_is_not_evaluated_does_not_count():
    module = read_module(TEXT.replace("cosine(", "stochastic-convert("))
    assert not all_count(module, [module.names.index("sum")])
