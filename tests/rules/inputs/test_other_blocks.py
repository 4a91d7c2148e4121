"""Steps that run other blocks of a model, whose weights stand in each other's place."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

WINDOW = "window={{size=1x3 pad=0_0x{wide}_{wide}{dilated}}}, dim_labels=bf01_oi01->bf01"
LINE = 'metadata={{op_type="aten__{}" source_file="train.py" source_line={}}}'
WEIGHT, VALUE = "f32[8,8,1,3]", "f32[4,8,1,9]"


def window(dilation: int) -> str:
    dilated = f" rhs_dilate=1x{dilation}" if dilation > 1 else ""
    return WINDOW.format(wide=dilation, dilated=dilated)


def step(run: str, dilations: tuple[int, ...] = (1, 2, 4), outputs: str = "012") -> str:
    """A step in which these blocks run, in this order; the others are updated with zeros."""
    idle = [n for n in "012" if n not in run]
    inputs = "".join(f"  w{n} = {WEIGHT} parameter({k})\n" for k, n in enumerate([*run, *idle], 1))
    above, blocks = "x", ""
    for n in run:
        add, conv = LINE.format("add", 20), LINE.format("convolution", 9)
        blocks += (
            f"  h{n} = {VALUE} convolution({above}, w{n}), {window(dilations[int(n)])}, {conv}\n"
            f"  t{n} = {VALUE} tanh(h{n}), {LINE.format('tanh', 10)}\n"
            f"  y{n} = {VALUE} add({above}, t{n}), {add}\n"
            f"  r{n} = f32[] reduce(h{n}, zero), dimensions={{0,1,2,3}}, to_apply=sum\n"
            f"  g{n} = {WEIGHT} broadcast(r{n}), dimensions={{}}\n"
        )
        above = f"y{n}"
    blocks += "".join(f"  g{n} = {WEIGHT} broadcast(zero), dimensions={{}}\n" for n in idle)
    updates = "".join(
        f"  d{n} = {WEIGHT} multiply(rates, g{n})\n  n{n} = {WEIGHT} subtract(w{n}, d{n})\n"
        for n in "012"
    )
    given = ", ".join(f"n{n}" for n in outputs)
    return f"""HloModule step

sum {{
  i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT s = f32[] add(i, j)
}}

ENTRY main {{
  x = {VALUE} parameter(0)
{inputs}  rate = f32[] parameter(4)
  rates = {WEIGHT} broadcast(rate), dimensions={{}}
  zero = f32[] constant(0)
{blocks}{updates}  l = f32[] reduce({above}, zero), dimensions={{0,1,2,3}}, to_apply=sum
  ROOT r = ({WEIGHT}, {WEIGHT}, {WEIGHT}, f32[]) tuple({given}, l)
}}
"""


def explained(first: str, second: str):
    found = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert found.proved
    return found


@pytest.mark.parametrize("dilations", [(1, 2, 4), (1, 1, 1)])
def test_weights_that_each_side_leaves_alone_are_other_blocks(dilations):
    found = explained(step("01", dilations), step("02", dilations))
    (cause,) = found.causes
    assert cause.kind.id == "skipped-block"
    assert "train.py:9" in str(cause.title)
    told = [str(evidence.text) for evidence in cause.evidence[:2]]
    assert "whose new value is output 1" in told[0]
    assert "whose new value is output 2" in told[1]


def test_the_option_of_one_weight_is_an_option():
    found = explained(step("01", (1, 2, 4)), step("01", (1, 4, 4)))
    assert [cause.kind.id for cause in found.causes] == ["convolution-option"]


def test_blocks_in_another_order_all_run_on_both_sides():
    found = explained(step("012", (1, 1, 1)), step("021", (1, 1, 1)))
    assert "skipped-block" not in [cause.kind.id for cause in found.causes]


def test_outputs_in_another_order_are_no_other_blocks():
    found = explained(step("012"), step("012", outputs="021"))
    assert [cause.kind.id for cause in found.causes] == ["output-order"]
