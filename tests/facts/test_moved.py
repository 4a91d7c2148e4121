"""Operations that stand before others on one side, and behind them on the other."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.facts.pieces.moved import moved_operations
from xlagraph.hlo import read_module
from xlagraph.message import A, B

HEAD = "HloModule m\n\nENTRY e {\n"
STEPS = {
    "mask": "  {new} = f32[8]{{0}} select(m, {old}, fill)\n",
    "cap": "  {new}0 = f32[8]{{0}} divide({old}, limit)\n"
    "  {new}1 = f32[8]{{0}} tanh({new}0)\n"
    "  {new} = f32[8]{{0}} multiply({new}1, limit)\n",
    "scale": "  {new} = f32[8]{{0}} multiply({old}, limit)\n",
    "bias": "  {new} = f32[8]{{0}} add({old}, fill)\n",
}


def _module(*steps: str) -> str:
    lines = [
        HEAD,
        "  x = f32[8]{0} parameter(0)\n",
        "  m = pred[8]{0} parameter(1)\n",
        "  fill = f32[8]{0} parameter(2)\n",
        "  limit = f32[8]{0} parameter(3)\n",
        "  v = f32[8]{0} exponential(x)\n",
    ]
    old = "v"
    for step in steps:
        lines.append(STEPS[step].format(new=step, old=old))
        old = step
    return "".join([*lines, f"  ROOT r = f32[8]{{0}} sine({old})\n", "}\n"])


def _moved(one: tuple[str, ...], other: tuple[str, ...]):
    diff = diff_modules(read_module(_module(*one)), read_module(_module(*other)))
    own = (
        {*diff.removed, *(change.a for change in diff.changes)},
        {*diff.added, *(change.b for change in diff.changes)},
    )
    return diff, moved_operations(diff, *own)


def test_a_mask_behind_a_cap_is_told_with_what_it_moved_past():
    diff, found = _moved(("mask", "cap"), ("cap", "mask"))
    (mask,) = [one for one in found if diff.a.opcodes[one.a] == "select"]
    assert mask.first is A
    assert {diff.a.names[i] for i in mask.others_a} == {"cap0", "cap1", "cap"}
    assert {diff.b.names[i] for i in mask.others_b} == {"cap0", "cap1", "cap"}


def test_the_side_is_the_one_where_it_comes_first():
    diff, found = _moved(("cap", "mask"), ("mask", "cap"))
    (mask,) = [one for one in found if diff.a.opcodes[one.a] == "select"]
    assert mask.first is B


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("mask", "cap"), ("mask", "cap")),
        (("mask", "cap"), ("cap",)),
        (("mask", "cap"), ("mask", "cap", "bias")),
        (("mask", "bias"), ("cap", "mask")),
    ],
)
def test_what_is_lost_or_new_has_not_moved(one, other):
    assert not _moved(one, other)[1]


def test_terms_of_a_sum_in_another_order_have_not_moved():
    text = HEAD + "".join(f"  p{k} = f32[8]{{0}} parameter({k})\n" for k in range(4))
    one = "  a = f32[8]{0} add(p0, p1)\n  b = f32[8]{0} add(a, p2)\n"
    other = "  b = f32[8]{0} add(p0, p2)\n  a = f32[8]{0} add(b, p1)\n"
    end = "  ROOT r = f32[8]{{0}} multiply({}, p3)\n}}\n"
    diff = diff_modules(
        read_module(text + one + end.format("b")), read_module(text + other + end.format("a"))
    )
    own = {*range(len(diff.a))}, {*range(len(diff.b))}
    assert not moved_operations(diff, *own)
