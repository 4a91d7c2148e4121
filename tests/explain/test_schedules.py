"""What a schedule computes of the count of steps is one cause, and what only uses it is none."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule jit_step
ENTRY main {{
  w = f32[8] parameter(0)
  count = s32[] parameter(1)
  g = f32[8] sine(w)
  steps = f32[] convert(count)
  top = f32[] constant({top})
{rate}
  rates = f32[8] broadcast(rate), dimensions={{}}
  s = f32[8] multiply({taken}, rates)
  ROOT n = f32[8] subtract(w, s)
}}
"""
LINEAR = "  part = f32[] divide(steps, top)\n  rate = f32[] negate(part){at}"
COSINE = """\
  part = f32[] divide(steps, top)
  turn = f32[] sqrt(part){at}
  rate = f32[] cosine(turn){at}"""
FILE = "site-packages/optax/{}.py"


def step(rate: str, file: str, top: str = "1000", taken: str = "g") -> str:
    place = FILE.format(file)
    at = f', metadata={{op_name="f" source_file="{place}" source_line=7}}'
    return STEP.format(rate=rate.format(at=at), top=top, taken=taken)


def said(a: str, b: str) -> tuple[str, list[str]]:
    found = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert found.proved
    verdict = found.verdict
    kinds = [cause.kind.id for cause in found.causes]
    return " ".join(map(str, (verdict.what, *verdict.notes))), kinds


def test_another_schedule_and_its_numbers_are_one_cause():
    file = "schedules/_schedule"
    told, kinds = said(step(LINEAR, file), step(COSINE, file, "900"))
    assert "A schedule, as of a learning rate, computes another number" in told
    assert len(kinds) == 1


def test_what_an_optimizer_corrects_by_the_count_is_no_schedule():
    file = "_src/transform"
    assert "chedule" not in said(step(LINEAR, file), step(COSINE, file))[0]


def test_another_gradient_beside_it_is_a_cause_of_its_own():
    file = "schedules/_schedule"
    other = step(COSINE, file, taken="k").replace("  g =", "  k = f32[8] cosine(w)\n  g =")
    told, kinds = said(step(LINEAR, file), other)
    assert len(kinds) > 1 or "chedule" not in told


BOUNDED = "  part = f32[] minimum(steps, top)\n  rate = f32[] divide(part, top){at}"
POWER = "  rate = f32[] power(top, steps){at}"


def test_the_number_of_steps_of_a_schedule_is_told_as_that():
    told, _ = said(step(BOUNDED, "x", "12000"), step(BOUNDED, "x", "11500"))
    assert "A schedule, as of a learning rate, has another number of steps" in told
    assert "12000 became 11500" in told


def test_other_numbers_beside_a_count_are_no_length_of_a_schedule():
    assert "chedule" not in said(step(POWER, "x", "0.9"), step(POWER, "x", "0.8"))[0]
    assert "chedule" not in said(step(LINEAR, "x", "90"), step(LINEAR, "x", "80"))[0]
    at_weights = step(BOUNDED, "x", "90").replace("convert(count)", "constant(7)")
    assert "chedule" not in said(at_weights, at_weights.replace("90", "80"))[0]
