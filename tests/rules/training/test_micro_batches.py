"""A batch that is cut into another number of micro-batches, and what only looks like it."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """HloModule jit_step

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  w = f32[4,4] parameter(1)
  v = f32[4,4] parameter(2)
  zero = f32[] constant(0)
"""
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CROSS = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"


def step(parts: int, *, chained: bool = False) -> str:
    """The weights' new values, by gradients that are summed over the parts of a batch.

    Chained: what a part gives goes into the next part, as in a recurrent network.
    """
    rows = 8 // parts
    text, total = HEAD, ""
    for k in range(parts):
        part, size = f"x{k}", f"f32[{rows},4]"
        cut = f"slice={{[{k * rows}:{(k + 1) * rows}], [0:4]}}"
        text += f"  {part} = {size} slice(x), {cut}\n" if parts > 1 else ""
        part = part if parts > 1 else "x"
        if chained and k:
            text += f"  y{k} = {size} add({part}, o{k - 1})\n"
            part = f"y{k}"
        text += f"  h{k} = {size} dot({part}, w), {DOT}\n  t{k} = {size} tanh(h{k})\n"
        text += f"  o{k} = {size} dot(t{k}, v), {DOT}\n  e{k} = {size} sine(o{k})\n"
        text += f"  g{k} = f32[4,4] dot(t{k}, e{k}), {CROSS}\n"
        text += f"  s{k} = f32[4,4] add({total}, g{k})\n" if total else ""
        total = f"s{k}" if total else f"g{k}"
    text += f"  new = f32[4,4] subtract(v, {total})\n"
    return text + "  ROOT out = (f32[4,4]) tuple(new)\n}\n"


def said(first: str, second: str) -> str:
    return str(explain_modules(read_module(first, "a"), read_module(second, "b")).verdict)


@pytest.mark.parametrize(
    ("first", "second", "numbers"),
    [(2, 1, "2 in A, 1 in B"), (1, 2, "2 in B, 1 in A"), (4, 2, "4 in A, 2 in B")],
)
def test_the_number_of_micro_batches_is_told(first, second, numbers):
    assert f"cut into another number of micro-batches: {numbers}" in said(step(first), step(second))


def test_steps_of_a_recurrence_are_no_micro_batches():
    assert "micro-batches" not in said(step(2, chained=True), step(1))


def test_one_part_of_a_batch_is_no_micro_batch():
    """A layer that runs on the first half beside all of it."""
    more = step(1).replace(
        "  new = f32[4,4] subtract(v, g0)",
        "  half = f32[4,4] slice(x), slice={[0:4], [0:4]}\n"
        f"  hh = f32[4,4] dot(half, w), {DOT}\n  th = f32[4,4] tanh(hh)\n"
        f"  oh = f32[4,4] dot(th, v), {DOT}\n  eh = f32[4,4] sine(oh)\n"
        f"  gh = f32[4,4] dot(th, eh), {CROSS}\n  sh = f32[4,4] add(g0, gh)\n"
        "  new = f32[4,4] subtract(v, sh)",
    )
    assert "micro-batches" not in said(more, step(1))


def stacked(parts: int) -> str:
    """Batches as the rows of one argument, whose size goes with their number."""
    text = HEAD.replace("x = f32[8,4]", f"xs.1 = f32[{parts},8,4]")
    total = ""
    for k in range(parts):
        cut = f"slice={{[{k}:{k + 1}], [0:8], [0:4]}}"
        text += f"  c{k} = f32[1,8,4] slice(xs.1), {cut}\n" if parts > 1 else ""
        text += f"  x{k} = f32[8,4] reshape({f'c{k}' if parts > 1 else 'xs.1'})\n"
        text += f"  h{k} = f32[8,4] dot(x{k}, w), {DOT}\n  t{k} = f32[8,4] tanh(h{k})\n"
        text += f"  o{k} = f32[8,4] dot(t{k}, v), {DOT}\n  e{k} = f32[8,4] sine(o{k})\n"
        text += f"  g{k} = f32[4,4] dot(t{k}, e{k}), {CROSS}\n"
        text += f"  s{k} = f32[4,4] add({total}, g{k})\n" if total else ""
        total = f"s{k}" if total else f"g{k}"
    text += f"  new = f32[4,4] subtract(v, {total})\n"
    return text + "  ROOT out = (f32[4,4]) tuple(new)\n}\n"


def test_an_argument_of_another_size_is_not_one_more():
    """Nor did a part of a traced function run early."""
    for a, b in ((2, 1), (1, 2)):
        found = explain_modules(read_module(stacked(a), "a"), read_module(stacked(b), "b"))
        kinds = {cause.kind.id for cause in found.causes}
        assert "accumulation-count" in kinds
        assert kinds.isdisjoint({"added-input", "early-execution"})
