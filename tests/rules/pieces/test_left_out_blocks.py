"""A block of the model that one of two modules without names leaves out, with what comes of it."""

from __future__ import annotations

import pytest

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind
from xlagraph.cause.model import Evidence, Explanation
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.explain.left_out import comes_of_block
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine, say
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK

LINE = 'metadata={{op_type="aten__add" source_file="model.py" source_line={}}}'


FORWARD = """
  h{n} = f32[4,8] dot({x}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {at21}
  t{n} = f32[4,8] tanh(h{n}), {at22}
  y{n} = f32[4,8] add({x}, t{n}), {at23}"""
BACKWARD = """
  s{n} = f32[4,8] cosine(h{n})
  c{n} = f32[4,8] multiply({above}, s{n})
  g{n} = f32[8,8] dot({x}, c{n}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  b{n} = f32[4,8] dot(c{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  a{n} = f32[4,8] add({above}, b{n})
  d{n} = f32[8,8] multiply(rates, g{n})
  n{n} = f32[8,8] subtract(w{n}, d{n})"""


def step(*blocks: str, kept: str = "", penalty: bool = False, trains: bool = True) -> str:
    """One step of a model with residual blocks between two layers; `kept`: values given out."""
    before = ("v0", *(f"y{n}" for n in blocks))
    lines = {f"at{k}": LINE.format(k) for k in (21, 22, 23)}
    below = zip(blocks, before, strict=False)
    forward = "".join(FORWARD.format(n=n, x=x, **lines) for n, x in below)
    above = ("a0", *(f"a{n}" for n in reversed(blocks)))
    taken = zip(reversed(blocks), reversed(before[:-1]), above, strict=False)
    backward = "".join(BACKWARD.format(n=n, x=x, above=one) for n, x, one in taken)
    parameters = "".join(f"\n  w{n} = f32[8,8] parameter({k})" for k, n in enumerate(blocks, 4))
    sums = [f"q{n}" for n in blocks if penalty]
    extra = "".join(
        f"\n  p{n} = f32[8,8] multiply(w{n}, w{n})\n  q{n} = f32[8,8] add({last}, p{n})"
        for n, last in zip(blocks, ("rates", *sums[:-1]), strict=False)
        if penalty
    )
    given = [*(f"n{n}" for n in blocks if trains), *kept.split(), *sums[-1:]]
    shapes = "".join(", f32[4,8]" if one[0] == "t" else ", f32[8,8]" for one in given)
    top = before[-1]
    return f"""HloModule step

ENTRY main {{
  x = f32[4,5] parameter(0)
  rate = f32[] parameter(1)
  wi = f32[5,8] parameter(2)
  wo = f32[8,3] parameter(3){parameters}
  rates = f32[8,8] broadcast(rate), dimensions={{}}
  v0 = f32[4,8] dot(x, wi), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{forward}
  y = f32[4,3] dot({top}, wo), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[4,3] sine(y)
  go = f32[8,3] dot({top}, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  no = f32[8,3] subtract(wo, go)
  a0 = f32[4,8] dot(e, wo), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}{backward}
  gi = f32[5,8] dot(x, {above[-1]}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ni = f32[5,8] subtract(wi, gi){extra}
  ROOT r = (f32[4,3], f32[8,3], f32[5,8]{shapes}) tuple({", ".join(["y", "no", "ni", *given])})
}}
"""


def both_ways(a: str, b: str) -> list[Explanation]:
    first, second = read_module(a, "a"), read_module(b, "b")
    found = [explain_modules(first, second), explain_modules(second, first)]
    assert all(one.proved for one in found)
    return found


def kinds(explanation: Explanation) -> list[str]:
    return sorted(cause.kind.id for cause in explanation.causes)


@pytest.mark.parametrize("left", [("1",), ("1", "2")])
def test_blocks_that_are_left_out_are_one_cause(left):
    for explanation in both_ways(step("1", "2", "3"), step(*sorted({"1", "2", "3"} - set(left)))):
        (cause,) = explanation.causes
        assert cause.kind.id == "skipped-block"
        assert str(explanation.verdict.where) == "model.py:23"
        assert "multiply" in str(cause.fix_in_short)


def test_gradients_that_are_kept_come_of_it():
    for explanation in both_ways(step("1", "2", kept="g1 g2"), step("1", kept="g1")):
        assert kinds(explanation) == ["skipped-block"]


def test_a_value_that_both_compute_and_one_keeps_alive_does_not():
    for explanation in both_ways(step("1", "2", kept="t1"), step("1")):
        assert kinds(explanation) == ["live-tensor", "skipped-block"]


def test_weights_that_are_only_read_are_no_block():
    """A frozen adapter: nothing is trained in some steps only."""
    for explanation in both_ways(step("1", "2", trains=False), step("1", trains=False)):
        assert "skipped-block" not in kinds(explanation)


def test_a_penalty_on_all_weights_stays_a_cause_of_its_own():
    """It takes in the block's weights, too."""
    for explanation in both_ways(step("1", "2", "3", penalty=True), step("1", "2")):
        assert kinds(explanation) == ["live-tensor", "skipped-block"]


def test_the_update_of_a_weight_of_it_is_no_option():
    """A weight of the block may be paired with another block's, so that its update stands alone.

    So may the weights' new values, so that they seem to stand in another order.
    """
    a = read_module(step("1", "2", "3"), "a")
    diff = diff_modules(a, read_module(step("1", "2"), "b"))
    place = {name: i for i, name in enumerate(a.names)}

    def of(kind: Kind, *names: str, line: str = "") -> Finding:
        evidence = Evidence(say(), sources=(SourceLine(line, 1),) if line else ())
        claimed = frozenset(place[name] for name in names)
        return Finding(kind, say(), (evidence,), say(), a=claimed, reorders=bool(line))

    block = of(SKIPPED_BLOCK, "h3", "t3", "g3")
    assert comes_of_block(of(OPTIMIZER_OPTION, "d3", "n3"), block, diff)
    assert not comes_of_block(of(OPTIMIZER_OPTION, "no"), block, diff)
    assert comes_of_block(of(OUTPUT_ORDER, line="torch/optim/adam.py"), block, diff)
    assert not comes_of_block(of(OUTPUT_ORDER, line="model.py"), block, diff)
    assert {OPTIMIZER_OPTION.id, OUTPUT_ORDER.id} <= set(SKIPPED_BLOCK.consequences)
