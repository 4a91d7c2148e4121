"""A mean over replica groups divides by their size: that follows from the groups."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule jit_step, num_partitions=4
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[4] parameter(0)
  p = f32[4] parameter(1)
  r = f32[4] all-reduce(x), channel_id=1, replica_groups={groups}, use_global_device_ids=true, to_apply=sum
  n = f32[] constant({number})
  m = f32[4] broadcast(n), dimensions={{}}
  d = f32[4] {divide}({of}, m)
  t = f32[4] tanh(p)
  q = f32[4] subtract(t, d)
  k = f32[4] multiply(q, r)
  ROOT s = (f32[4]) tuple(k)
}}
"""  # noqa: E501
TWO, FOUR = "{{0,2},{1,3}}", "{{0,1,2,3}}"


def said(*sides, divide="divide", of="r"):
    texts = (STEP.format(groups=g, number=n, divide=divide, of=of) for g, n in sides)
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    return str(found.verdict.what), [str(cause.kind) for cause in found.causes]


@pytest.mark.parametrize(
    ("divide", "numbers"), [("divide", ("2", "4")), ("multiply", ("0.5", "0.25"))]
)
def test_what_a_mean_divides_by_follows_from_its_groups(divide, numbers):
    told, kinds = said((TWO, numbers[0]), (FOUR, numbers[1]), divide=divide)
    assert told == f"A collective runs over other groups: {TWO} became {FOUR}."
    assert kinds == ["replica-groups"]


@pytest.mark.parametrize(
    ("numbers", "of"), [(("2", "3"), "r"), (("3", "4"), "r"), (("2", "4"), "p")]
)
def test_another_number_is_an_edit_of_its_own(numbers, of):
    _, kinds = said((TWO, numbers[0]), (FOUR, numbers[1]), of=of)
    assert sorted(kinds) == ["constant-value", "replica-groups"]


def test_a_number_alone_is_told_alone():
    assert said((TWO, "2"), (TWO, "4"))[1] == ["constant-value"]


SHARED = STEP.replace("tanh(p)", "multiply(p, {other})").replace(
    "  d = f32",
    "  v = f32[] constant({rest})\n  w = f32[4] broadcast(v), dimensions={{}}\n  d = f32",
)


def _shares(groups: str, number: str, *, other: str, rest: str) -> str:
    text = SHARED.format(
        groups=groups, number=number, divide="divide", of="r", other=other, rest=rest
    )
    lines = text.splitlines()
    product = next(line for line in lines if "multiply(p," in line)
    lines.remove(product)
    lines.insert(next(k for k, line in enumerate(lines) if " q = " in line), product)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("rest", "kinds"), [("4", ["replica-groups"]), ("8", ["constant-value", "replica-groups"])]
)
def test_a_number_that_something_else_has_too_is_two_numbers(rest, kinds):
    a = _shares(FOUR, "4", other="m", rest="4")
    b = _shares(TWO, "2", other="w", rest=rest)
    found = explain_modules(read_module(a), read_module(b))
    assert found.proved
    assert sorted(str(cause.kind) for cause in found.causes) == kinds
