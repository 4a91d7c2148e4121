"""Losses that are known by their values, however they are written."""

from __future__ import annotations

import re

import pytest

from xlagraph.facts.training.loss_functions import PLAIN, SET, loss_by_name
from xlagraph.hlo import read_module

HEAD = """HloModule step
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  w = f32[8,4] parameter(0)
  batch = f32[6,8] parameter(1)
  y = f32[6,4] parameter(2)
  beta = f32[] parameter(3)
  half = f32[] parameter(4)
  x = f32[6,4] dot(batch, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  one = f32[] constant(1)
  ones = f32[6,4] broadcast(one), dimensions={}
  zeros = f32[6,4] broadcast(zero), dimensions={}
  d = f32[6,4] subtract(x, y)
  far = f32[6,4] abs(d)
  square = f32[6,4] multiply(d, d)
"""
TAIL = """  sum = f32[] reduce(r, zero), dimensions={0,1}, to_apply=add
  n = f32[] constant(24)
  loss = f32[] divide(sum, n)
  g = f32[8,4] dot(batch, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new = f32[8,4] subtract(w, g)
  ROOT out = (f32[], f32[8,4]) tuple(loss, new)
}
"""


def spread(name, number):
    """A constant in the loss's shape."""
    return (
        f"{name}0 = f32[] constant({number})",
        f"{name} = f32[6,4] broadcast({name}0), dimensions={{}}",
    )


SMOOTH = (
    *spread("h", 0.5),
    *spread("k", 0.25),
    "m = f32[6,4] minimum(far, k)",
    "mm = f32[6,4] multiply(m, m)",
    "hm = f32[6,4] multiply(h, mm)",
    "over = f32[6,4] subtract(far, m)",
    "line = f32[6,4] multiply(k, over)",
    "huber = f32[6,4] add(hm, line)",
)
LOGITS = (
    "low = f32[6,4] maximum(x, zeros)",
    "xy = f32[6,4] multiply(x, y)",
    "lin = f32[6,4] subtract(low, xy)",
    "ax = f32[6,4] abs(x)",
    "nx = f32[6,4] negate(ax)",
    "ex = f32[6,4] exponential(nx)",
    "lg = f32[6,4] log-plus-one(ex)",
)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["r = f32[6,4] multiply(d, d)"], "mse_loss(x, y)"),
        (["two = f32[] constant(2)", "t = f32[6,4] broadcast(two), dimensions={}",
          "r = f32[6,4] power(d, t)"], "mse_loss(x, y)"),
        (["r = f32[6,4] sqrt(square)"], "l1_loss(x, y)"),
        ([*spread("c", 1e-3), "s = f32[6,4] add(square, c)", "r = f32[6,4] sqrt(s)"],
         "sqrt((x - y)**2 + 0.001)"),
        ([*SMOOTH, "r = f32[6,4] copy(huber)"], "huber_loss(x, y, delta=0.25)"),
        ([*SMOOTH, "r = f32[6,4] divide(huber, k)"], "smooth_l1_loss(x, y, beta=0.25)"),
        ([*LOGITS, "r = f32[6,4] add(lin, lg)"], "binary_cross_entropy_with_logits(x, y)"),
        (["xy = f32[6,4] multiply(x, y)", "m = f32[6,4] subtract(ones, xy)",
          "r = f32[6,4] maximum(m, zeros)"], "relu(1 - x * y)"),
        (["b = f32[6,4] broadcast(beta), dimensions={}",
          "h = f32[6,4] broadcast(half), dimensions={}",
          "is = pred[6,4] compare(far, b), direction=LT", "hs = f32[6,4] multiply(h, square)",
          "near = f32[6,4] divide(hs, b)", "hb = f32[6,4] multiply(h, b)",
          "away = f32[6,4] subtract(far, hb)", "r = f32[6,4] select(is, near, away)"],
         "smooth_l1_loss(x, y, beta=...)"),
        (["r = f32[6,4] cosine(d)"], ""),
        (["r = f32[6,4] multiply(square, d)"], ""),
        (["r = f32[6,4] copy(x)"], ""),
    ],
)  # fmt: skip
def test_a_loss_is_named_however_it_is_written(lines, name):
    module = read_module(HEAD + "".join(f"  {line}\n" for line in lines) + TAIL)
    loss = loss_by_name(module)
    assert (loss.name if loss else "") == name


def test_two_losses_have_no_name_together():
    lines = (
        "  r = f32[6,4] multiply(d, d)\n"
        "  other = f32[] reduce(far, zero), dimensions={0,1}, to_apply=add\n"
    )
    tail = TAIL.replace("divide(sum, n)", "add(sum, other)")
    assert loss_by_name(read_module(HEAD + lines + tail)) is None


def test_a_module_that_trains_nothing_has_no_loss():
    tail = TAIL.replace("tuple(loss, new)", "tuple(loss, g)").replace("(w, g)", "(g, g)")
    assert loss_by_name(read_module(HEAD + "  r = f32[6,4] multiply(d, d)\n" + tail)) is None


def test_the_names_are_torchs():
    torch = pytest.importorskip("torch")
    from torch.nn import functional

    x = torch.tensor([0.1, 0.4, 0.8, 0.9], dtype=torch.float64)
    y = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    checked = 0
    families = {family.name.format(0.3): family for family in SET}
    for name in (*PLAIN, *families):
        function, rest = (
            re.fullmatch(r"(\w+)\(x, y(.*)\)", name).groups() if ", y" in name else ("", "")
        )
        if not hasattr(functional, function or "-"):
            continue
        settings = {key: float(value) for key, value in re.findall(r"(\w+)=([-\d.]+)", rest)}
        if function == "poisson_nll_loss":
            settings["full"] = False
        ours = PLAIN.get(name) or (lambda p, t, of=families[name].of: of(p, t, 0.3))
        expected = getattr(functional, function)(x, y, reduction="none", **settings)
        told = [ours(p, t) for p, t in zip(x.tolist(), y.tolist(), strict=True)]
        assert told == pytest.approx(expected.tolist())
        checked += 1
    assert checked == 8
