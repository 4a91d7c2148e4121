"""A state that comes in another type is one cause, and what becomes of buffers follows from it."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

DONATED = "input_output_alias={ {0}: (0, {}), {1}: (1, {}), {2}: (2, {}), {3}: (3, {}) }"
MOVED = "input_output_alias={ {2}: (0, {}), {3}: (1, {}) }, buffer_donor={ (2, {}), (3, {}) }"
NOT_DONATED = "buffer_donor={ }"


def step(kind: str, header: str) -> str:
    """Two moments that are kept in bf16, and two others that are kept in f32."""
    text = f"HloModule jit_step, {header}\n\nENTRY main {{\n"
    for k, size in enumerate((4, 8)):
        mean = f"d{k}" if kind == "f32" else f"w{k}"
        text += f"  m{k} = {kind}[{size}] parameter({k})\n  c{k} = {kind}[] constant(0.5)\n"
        text += f"  b{k} = {kind}[{size}] broadcast(c{k}), dimensions={{}}\n"
        text += f"  d{k} = {kind}[{size}] multiply(m{k}, b{k})\n"
        text += f"  v{k} = f32[{size}] parameter({k + 2})\n"
        if kind != "f32":
            text += f"  w{k} = f32[{size}] convert(d{k})\n"
        text += f"  a{k} = f32[{size}] tanh({mean})\n  s{k} = f32[{size}] add(a{k}, v{k})\n"
        text += f"  o{k} = bf16[{size}] convert(a{k})\n"
    out = "bf16[4], bf16[8], f32[4], f32[8]"
    return text + f"  ROOT r = ({out}) tuple(o0, o1, s0, s1)\n}}\n"


def causes(first: str, second: str) -> list[tuple[str, str]]:
    found = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert found.proved
    return [(str(cause.kind), str(cause.title)) for cause in found.causes]


def test_moments_restored_in_another_type_are_one_cause_with_the_buffers_that_find_no_output() -> (
    None
):
    ((kind, title),) = causes(step("bf16", DONATED), step("f32", MOVED))
    assert kind == "dtype"
    assert "input 0 (f32[4])" in title
    assert "input 1 (f32[8])" in title


def test_what_is_no_longer_donated_is_a_cause_beside_another_type() -> None:
    found = [kind for kind, _ in causes(step("bf16", DONATED), step("f32", NOT_DONATED))]
    assert "dtype" in found
    assert "alias" in found
