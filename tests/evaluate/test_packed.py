"""Modules that hold tensors in other forms: joined, stacked, cut and turned."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.diff import diff_modules
from xlagraph.evaluate import evaluate, same_values
from xlagraph.evaluate.forms.packed import same_packed
from xlagraph.evaluate.forms.packing import Form, Piece, packings, surplus
from xlagraph.evaluate.forms.repack import repacked
from xlagraph.explain import explain_modules
from xlagraph.facts.training.updates import updates
from xlagraph.hlo import read_module

FUSED = """HloModule jit_step, input_output_alias={ {1}: (1, {}, may-alias) }

add.1 {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT add = f32[] add(x, y)
}

ENTRY main {
  x = f32[5,4]{1,0} parameter(0)
  w = f32[4,12]{1,0} parameter(1)
  h = f32[5,12]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[5,4]{1,0} slice(h), slice={[0:5], [0:4]}
  k = f32[5,4]{1,0} slice(h), slice={[0:5], [4:8]}
  v = f32[5,4]{1,0} slice(h), slice={[0:5], [8:12]}
  s = f32[5,5]{1,0} dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[5,5]{1,0} tanh(s)
  o = f32[5,4]{1,0} dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  loss = f32[] reduce(o, zero), dimensions={0,1}, to_apply=add.1
  rate = f32[] constant(0.1)
  rates = f32[4,12]{1,0} broadcast(rate), dimensions={}
  step = f32[4,12]{1,0} multiply(w, rates)
  new = f32[4,12]{1,0} subtract(w, step)
  ROOT out = (f32[], f32[4,12]{1,0}) tuple(loss, new)
}
"""


def _apart(scale: str = "0.1", order: str = "qkv") -> str:
    """The same with a matrix for each, which is turned."""
    lines = []
    for n, name in enumerate(order):
        lines += [
            f"  w{name} = f32[4,4]{{1,0}} parameter({n})",
            (
                f"  {name} = f32[5,4]{{1,0}} dot(x, w{name}), lhs_contracting_dims={{1}}, "
                "rhs_contracting_dims={1}"
            ),
            f"  step{name} = f32[4,4]{{1,0}} multiply(w{name}, rates)",
            f"  new{name} = f32[4,4]{{1,0}} subtract(w{name}, step{name})",
        ]
    body = "\n".join(lines)
    return f"""HloModule jit_step

add.1 {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT add = f32[] add(x, y)
}}

ENTRY main {{
  x = f32[5,4]{{1,0}} parameter(3)
  rate = f32[] constant({scale})
  rates = f32[4,4]{{1,0}} broadcast(rate), dimensions={{}}
{body}
  s = f32[5,5]{{1,0}} dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  e = f32[5,5]{{1,0}} tanh(s)
  o = f32[5,4]{{1,0}} dot(e, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  zero = f32[] constant(0)
  loss = f32[] reduce(o, zero), dimensions={{0,1}}, to_apply=add.1
  ROOT out = (f32[4,4]{{1,0}}, f32[4,4]{{1,0}}, f32[4,4]{{1,0}}, f32[]) tuple(
    newv, newq, newk, loss)
}}
"""


def _asked(a: str, b: str):
    diff = diff_modules(read_module(a, "a"), read_module(b, "b"))
    assert same_values(diff) is None
    return same_packed(diff, (updates(diff.a), updates(diff.b)))


@pytest.mark.parametrize("order", ["qkv", "vkq"])
def test_a_fused_matrix_is_its_parts(order):
    found = _asked(FUSED, _apart(order=order))
    (placed,) = found.packing
    assert (placed.side, placed.form.whole, placed.form.axis) == (0, "f32[4,12]", 1)
    assert placed.form.parts == {"f32[4,4]": 3}
    assert all(piece.is_turned for piece in placed.form.pieces)
    assert len(found.found.outputs) == 4
    turned = _asked(_apart(order=order), FUSED)
    assert turned.packing == (placed._replace(side=1),)


def test_other_numbers_are_seen_through_another_form():
    assert _asked(FUSED, _apart("0.2")) is None


def test_what_is_said_names_the_forms():
    told = explain_modules(read_module(FUSED, "a"), read_module(_apart(), "b"))
    assert told.same
    assert told.evaluated == 6
    assert str(told.verdict.what) == (
        "The same values, but for rounding, for equal weights: evaluated at 6 random inputs, A and "
        "B agree in all 4 outputs."
    )
    forms, aside, _ = map(str, told.verdict.notes)
    assert forms == "Tensors are held in another form: f32[4,12] of A is 3 x f32[4,4] of B in one."
    assert aside == "Set aside: which inputs the outputs are written into."


def test_sides_of_other_sizes_have_no_forms():
    assert not list(packings(surplus(Counter({"f32[4,12]": 1}), Counter({"f32[4,4]": 2}))))
    assert not list(packings(surplus(Counter({"f32[8]": 1}), Counter({"s32[8,1]": 1}))))


def test_single_numbers_have_no_other_form():
    assert surplus(Counter({"f32[]": 3}), Counter({"f32[]": 1})) == (Counter(), Counter())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"f32[32,8]": 2}, {"f32[16,8]": 2, "f32[8,8]": 4}),
        ({"f32[3,8,4]": 1}, {"f32[8,4]": 3}),
        ({"f32[8,2,4]": 1, "f32[5]": 2}, {"f32[8,8]": 1, "f32[2,5]": 1}),
        ({"f32[6,3]": 4}, {"f32[3,6]": 4}),
    ],
)
def test_sizes_tell_of_forms(one, other):
    left = Counter(one), Counter(other)
    found = list(packings(left))
    assert found
    for packing in found:
        sides = (Counter(), Counter())
        for side, form, many in packing:
            sides[side][form.whole] += many
            for shape, n in form.parts.items():
                sides[1 - side][shape] += n * many
        assert sides == left


@st.composite
def _forms(draw) -> Form:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(sizes) - 1))
    pieces = []
    for thick in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
        own = [*sizes[:axis], thick, *sizes[axis + 1 :]]
        turn = draw(st.permutations(range(len(own))))
        tensor = [0] * len(own)
        for k, place in enumerate(turn):
            tensor[place] = own[k]
        shape = f"f32[{','.join(map(str, tensor))}]"
        pieces.append(Piece(shape, tuple(turn), tuple(own)))
    sizes[axis] = sum(piece.sizes[axis] for piece in pieces)
    return Form(f"f32[{','.join(map(str, sizes))}]", axis, tuple(pieces))


@given(_forms())
def test_a_module_of_parts_computes_what_it_did(form):
    shape = form.whole
    module = read_module(
        f"""HloModule m

ENTRY main {{
  n = f32[] parameter(0)
  w = {shape} parameter(1)
  two = {shape} add(w, w)
  ROOT out = ({shape}, f32[]) tuple(two, n)
}}
""",
        "m",
    )
    made = repacked(module, {1: form}, {0: form})
    chance = np.random.default_rng(1)
    parts = [chance.normal(size=piece.own) for piece in form.pieces]
    first, *others = parts
    doubled, number, *more = evaluate(made, [3.0, first, *others])
    assert number == 3.0
    for part, got in zip(parts, (doubled, *more), strict=True):
        np.testing.assert_array_equal(got, 2 * part)


@given(_forms())
def test_parts_stand_where_numpy_joins_them(form):
    shape = form.whole
    module = read_module(
        f"HloModule m\n\nENTRY main {{\n  w = {shape} parameter(0)\n"
        f"  two = {shape} add(w, w)\n  ROOT out = ({shape}) tuple(two)\n}}\n",
        "m",
    )
    chance = np.random.default_rng(2)
    parts = [chance.normal(size=piece.own) for piece in form.pieces]
    whole = np.concatenate(
        [np.transpose(p, piece.turn) for p, piece in zip(parts, form.pieces, strict=True)],
        form.axis,
    )
    (got,) = evaluate(repacked(module, {0: form}, {}), parts)
    np.testing.assert_array_equal(got, 2 * whole)


def test_outputs_in_another_form_are_set_aside():
    text = """HloModule jit_step

ENTRY main {
  x = f32[3,4]{1,0} parameter(0)
  y = f32[3,4]{1,0} tanh(x)
  z = f32[4,3]{0,1} transpose(y), dimensions={1,0}
  ROOT out = (f32[3,4]{1,0}, f32[4,3]{0,1}) tuple(y, z)
}
"""
    alone = """HloModule jit_step

ENTRY main {
  x = f32[3,4]{1,0} parameter(0)
  m = f32[3,4]{1,0} negate(x)
  t = f32[3,4]{1,0} tanh(m)
  y = f32[3,4]{1,0} negate(t)
  z = f32[12]{0} reshape(y)
  ROOT out = (f32[3,4]{1,0}, f32[12]{0}) tuple(y, z)
}
"""
    found = _asked(text, alone)
    assert (found.packing, found.dropped) == ((), (1, 1))


def test_a_number_that_is_only_counted_on_is_set_aside():
    text = """HloModule jit_step

ENTRY main {
  step = s32[] parameter(0)
  x = f32[3,4]{1,0} parameter(1)
  one = s32[] constant(1)
  next = s32[] add(step, one)
  y = f32[3,4]{1,0} tanh(x)
  ROOT out = (s32[], f32[3,4]{1,0}) tuple(next, y)
}
"""
    alone = """HloModule jit_step

ENTRY main {
  x = f32[3,4]{1,0} parameter(0)
  m = f32[3,4]{1,0} negate(x)
  t = f32[3,4]{1,0} tanh(m)
  y = f32[3,4]{1,0} negate(t)
  ROOT out = (f32[3,4]{1,0}) tuple(y)
}
"""
    found = _asked(text, alone)
    assert (found.packing, found.dropped, found.counters) == ((), (0, 0), (1, 0))
    used = text.replace("tanh(x)", "add(x, spread)").replace(
        "  y =",
        "  wide = f32[] convert(next)\n"
        "  spread = f32[3,4]{1,0} broadcast(wide), dimensions={}\n  y =",
    )
    assert _asked(used, alone) is None
