"""Values that one side converts to another type for a few operations, and back."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SUM = """\
sum{k} {{
  a{k} = {t}[] parameter(0)
  b{k} = {t}[] parameter(1)
  ROOT c{k} = {t}[] add(a{k}, b{k})
}}
"""
REDUCED = """\
  g{k} = f32[{n}] sine(x{k})
  r{k} = f32[{n}] all-reduce(g{k}), channel_id={c}, replica_groups={{{{0,1}}}}, to_apply=sum{k}
  y{k} = f32[{n}] cosine(r{k})
"""
NARROW = """\
  g{k} = f32[{n}] sine(x{k})
  n{k} = bf16[{n}] convert(g{k})
  r{k} = bf16[{n}] all-reduce(n{k}), channel_id={c}, replica_groups={{{{0,1}}}}, to_apply=sum{k}
  w{k} = f32[{n}] convert(r{k})
  y{k} = f32[{n}] cosine(w{k})
"""
SIZES = (3, 5, 7)


def step(text: str, kind: str, donors: str = "") -> str:
    sums = "".join(SUM.format(k=k, t=kind) for k in range(3))
    inputs = "".join(f"  x{k} = f32[{n}] parameter({k})\n" for k, n in enumerate(SIZES))
    body = "".join(text.format(k=k, n=n, c=k + 1) for k, n in enumerate(SIZES))
    shapes = ", ".join(f"f32[{n}]" for n in SIZES)
    root = f"  ROOT r = ({shapes}) tuple(y0, y1, y2)\n"
    return f"HloModule jit_step{donors}\n{sums}ENTRY main {{\n{inputs}{body}{root}}}\n"


def explained(a: str, b: str):
    found = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert found.proved
    return found


@pytest.mark.parametrize("turned", [False, True])
def test_collectives_in_another_type_are_one_cause(turned):
    pair = step(REDUCED, "f32"), step(NARROW, "bf16")
    found = explained(*(pair[::-1] if turned else pair))
    assert [cause.kind.id for cause in found.causes] == ["dtype"]
    told = "3 values are converted to bf16 before all-reduce and back behind it in"
    assert str(found.verdict.what) == f"{told} {'A' if turned else 'B'} only."


def test_donated_arguments_are_told_beside_it():
    donors = ", buffer_donor={ (0, {}), (1, {}) }"
    found = explained(step(REDUCED, "f32"), step(NARROW, "bf16", donors))
    assert "before all-reduce" in str(found.verdict.what)
    assert "Beside it: 2 arguments are donated in B only" in str(found.verdict.notes[0])


def product(k: int, kind: str) -> str:
    x, w, back = f"x{k}", f"w{k}", f"d{k}"
    casts = ""
    if kind != "f32":
        x, w, back = f"nx{k}", f"nw{k}", f"b{k}"
        casts = f"  nx{k} = {kind}[4,4] convert(x{k})\n  nw{k} = {kind}[4,4] convert(w{k})\n"
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = f"{casts}  d{k} = {kind}[4,4] dot({x}, {w}), {dims}\n"
    text += "" if kind == "f32" else f"  b{k} = f32[4,4] convert(d{k})\n"
    return f"{text}  y{k} = f32[4,4] cosine({back})\n"


def products(kind: str) -> str:
    inputs = "".join(
        f"  x{k} = f32[4,4] parameter({2 * k})\n  w{k} = f32[4,4] parameter({2 * k + 1})\n"
        for k in range(2)
    )
    root = "  ROOT r = (f32[4,4], f32[4,4]) tuple(y0, y1)\n"
    text = inputs + product(0, kind) + product(1, kind) + root
    return f"HloModule m\nENTRY main {{\n{text}}}\n"


def test_products_in_another_type_are_still_the_same_computation_in_it():
    found = explained(products("f32"), products("bf16"))
    assert "before" not in str(found.verdict.what)
    told = "4 values are converted to bf16 in B only (autocast), for dot"
    assert told in str(found.verdict.what)


def test_one_conversion_and_back_is_told_as_before():
    inside = "ENTRY main {\n  x = f32[3] parameter(0)\n  g = f32[3] sine(x)\n"
    plain = "  r = f32[3] sqrt(g)\n  ROOT y = f32[3] cosine(r)\n}\n"
    other = """\
  n = bf16[3] convert(g)
  r = bf16[3] sqrt(n)
  w = f32[3] convert(r)
  ROOT y = f32[3] cosine(w)
}
"""
    found = explained(f"HloModule m\n{inside}{plain}", f"HloModule m\n{inside}{other}")
    assert "A value (f32[3]) is converted to bf16 before sqrt in B only" in str(
        found.causes[0].title.sentence
    )
