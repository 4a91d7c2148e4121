"""Two edits of one training step, of which texts without lines tell none apart by a line."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule IrToHlo.9
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[16,4] parameter(0)
  w = f32[4,5] parameter(1)
  v = f32[5,3] parameter(2)
  y = f32[16,3] parameter(3)
  mw = f32[4,5] parameter(4)
  mv = f32[5,3] parameter(5)
  momentum = f32[] parameter(6)
  rate = f32[] parameter(7)
  zero = f32[] constant(0)
  part = f32[] constant(0.02)
  parts = f32[16,3] broadcast(part), dimensions={}
  h = f32[16,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
ACTIVATION
  o = f32[16,3] dot(u, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[16,3] subtract(o, y)
LOSS
  s = f32[] reduce(l, zero), dimensions={0,1}, to_apply=sum
  loss = f32[] multiply(s, part)
  gv = f32[5,3] dot(u, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gu = f32[16,5] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  gh = f32[16,5] multiply(gu, du)
  gw = f32[4,5] dot(x, gh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
UPDATES
  ROOT r = (f32[], f32[4,5], f32[5,3], f32[4,5], f32[5,3]) tuple(loss, nw, nv, bw, bv)
}
"""
UPDATE = """\
  mb{n} = {t} broadcast({momentum}), dimensions={{}}
  mm{n} = {t} multiply(m{n}, mb{n})
  b{n} = {t} add(mm{n}, g{n})
{look}
  rb{n} = {t} broadcast(rate), dimensions={{}}
  rs{n} = {t} multiply({taken}, rb{n})
  n{n} = {t} subtract({n}, rs{n})
"""
LOOK = """\
  lb{n} = {t} broadcast(momentum), dimensions={{}}
  lm{n} = {t} multiply(b{n}, lb{n})
  lk{n} = {t} add({of}{n}, lm{n})"""
SQUARED = "  l = f32[16,3] multiply(d, d)\n  e = f32[16,3] multiply(d, parts)"
ABSOLUTE = """\
  l = f32[16,3] abs(d)
  q = f32[16,3] sign(d)
  e = f32[16,3] multiply(q, parts)"""
TANH = """\
  u = f32[16,5] tanh(h)
  one = f32[] constant(1)
  ones = f32[16,5] broadcast(one), dimensions={}
  uu = f32[16,5] multiply(u, u)
  du = f32[16,5] subtract(ones, uu)"""
LOGISTIC = """\
  u = f32[16,5] logistic(h)
  one = f32[] constant(1)
  ones = f32[16,5] broadcast(one), dimensions={}
  uu = f32[16,5] subtract(ones, u)
  du = f32[16,5] multiply(u, uu)"""


DECAY = """\
  db{n} = {t} broadcast(decay), dimensions={{}}
  dm{n} = {t} multiply({n}, db{n})
  dg{n} = {t} add(g{n}, dm{n})
"""


def step(loss=SQUARED, of="", activation=TANH, momentum="momentum", *, decays=""):
    """A step of SGD with momentum; `of`: to what it adds it once more, as nesterov to ``g``.

    decays: the names of the weights that decay.
    """
    updates = ""
    for name, shape in (("w", "f32[4,5]"), ("v", "f32[5,3]")):
        look = LOOK.format(n=name, t=shape, of=of) if of else ""
        taken = f"lk{name}" if of else f"b{name}"
        update = UPDATE.format(n=name, t=shape, look=look, taken=taken, momentum=momentum)
        if name in decays:
            update = update.replace(f", g{name})", f", dg{name})")
            updates += DECAY.format(n=name, t=shape)
        updates += update
    if decays:
        updates = f"  decay = f32[] parameter(8)\n{updates}"
    text = STEP.replace("LOSS", loss).replace("ACTIVATION", activation)
    return read_module(text.replace("UPDATES", updates))


def said(first, other):
    found = explain_modules(first, other)
    assert found.proved
    verdict = found.verdict
    return " ".join(map(str, (verdict.what, *verdict.notes))), [str(c.kind) for c in found.causes]


@pytest.mark.parametrize("is_turned", [False, True])
def test_another_loss_and_another_option_of_the_optimizer_are_both_told(is_turned):
    pair = step(), step(ABSOLUTE, "g")
    told, kinds = said(*(pair[::-1] if is_turned else pair))
    assert {"optimizer-option", "replaced-subgraph"} <= set(kinds)
    became = "l1_loss(x, y) became mse" if is_turned else "mse_loss(x, y) became l1"
    assert f"he loss is another function: {became}" in told
    assert "(nesterov)" in told


def test_weight_decay_beside_another_loss_is_an_option():
    told, kinds = said(step(), step(ABSOLUTE, decays="wv"))
    assert {"optimizer-option", "replaced-subgraph"} <= set(kinds)
    assert "he loss is another function: mse_loss(x, y) became l1_loss(x, y)" in told
    assert "eight decay is on in B only" in told
    assert "loss" not in said(step(), step(decays="wv"))[0]


def test_decay_of_some_weights_beside_that_of_others_is_no_decay_on_one_side_only():
    told, _ = said(step(decays="wv"), step(decays="v"))
    assert "Weight decay is on for 1 tensor of 2 in A only" in told
    assert "one dimension" not in told
    told, _ = said(step(), step(decays="wv"))
    assert "Weight decay is on in B only" in told


def test_another_comparison_beside_another_option_is_told():
    mask = """\
  ms = s32[16,5] iota(), iota_dimension=1
  ks = s32[16,5] iota(), iota_dimension=0
  kept = pred[16,5] compare(ks, ms), direction={}
  low = f32[16,5] sine(h)
  hh = f32[16,5] select(kept, h, low)
  u = f32[16,5] tanh(hh)
"""
    mask += "\n".join(TANH.splitlines()[1:])
    pair = (
        step(activation=mask.replace("direction={}", f"direction={d}"), decays=w)
        for d, w in (("LT", "wv"), ("LE", ""))
    )
    told, kinds = said(*pair)
    assert sorted(kinds) == ["attribute", "optimizer-option"]
    assert "Weight decay is on in A only" in told
    assert "Beside it: a comparison is another one: x < y became x <= y" in told


def test_each_edit_alone_is_told_alone():
    told, kinds = said(step(), step(of="g"))
    assert (kinds, "loss" in told, "(nesterov)" in told) == (["optimizer-option"], False, True)
    told, kinds = said(step(), step(ABSOLUTE))
    assert kinds[0] == "replaced-subgraph"
    assert "optimizer" not in told
    assert "he loss is another function: mse_loss(x, y) became l1_loss(x, y)" in told


def test_another_look_ahead_is_not_called_nesterov():
    told, kinds = said(step(), step(of="m"))
    assert kinds == ["optimizer-option"]
    assert "nesterov" not in told


@pytest.mark.parametrize("of", ["", "g"])
def test_another_activation_is_no_other_loss(of):
    told, kinds = said(step(), step(of=of, activation=LOGISTIC))
    assert "tanh(x) became sigmoid(x)" in told
    assert "loss" not in told
    assert kinds[1:] == ["optimizer-option"] * bool(of)


def test_a_number_that_is_equal_to_another_one_still_shares_its_parameter():
    told, kinds = said(step(), step(momentum="rate"))
    assert kinds == ["shared-scalar"], told
