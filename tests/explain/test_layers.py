"""Layers in place of others are told by name, each for itself, beside what else differs."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = "".join(
    f"{name} {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {name}(p, q) }}\n\n"
    for name in ("add", "maximum")
)
START = (
    "x = f32[4,8] parameter(0)",
    "w = f32[4,4] parameter(1)",
    "k = pred[4,4] parameter(2)",
    "zero = f32[] constant(0)",
)
MAX = (
    "low = f32[] constant(-inf)",
    "padded = f32[4,10] pad(x, low), padding=0_0x1_1",
    "pooled = f32[4,5] reduce-window(padded, low), window={size=1x2 stride=1x2}, to_apply=maximum",
)
AVG = (
    "low = f32[] constant(0)",
    "padded = f32[4,10] pad(x, low), padding=0_0x1_1",
    "sums = f32[4,5] reduce-window(padded, low), window={size=1x2 stride=1x2}, to_apply=add",
    "two = f32[] constant(2)",
    "twos = f32[4,5] broadcast(two), dimensions={}",
    "pooled = f32[4,5] divide(sums, twos)",
)
SECOND = (
    "first = f32[4,4] slice(pooled), slice={[0:4], [0:4]}",
    "h = f32[4,4] dot(first, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
)
MEAN = (
    "s = f32[] reduce(h, zero), dimensions={0,1}, to_apply=add",
    "n = f32[] constant(16)",
    "loss = f32[] divide(s, n)",
)
MASKED = (
    "m = f32[4,4] convert(k)",
    "kept = f32[4,4] multiply(h, m)",
    "s = f32[] reduce(kept, zero), dimensions={0,1}, to_apply=add",
    "n = f32[] reduce(m, zero), dimensions={0,1}, to_apply=add",
    "one = f32[] constant(1)",
    "g = f32[] maximum(n, one)",
    "loss = f32[] divide(s, g)",
)
POOLING = "max_pool became avg_pool"
OF_MASK = "over those alone that a mask keeps in B"


def told(*sides: tuple[tuple[str, ...], ...]) -> tuple[bool, list[str]]:
    """Whether two modules are explained with a proof, and their causes in short."""
    modules = []
    for parts in sides:
        lines = [f"  {line}" for part in (START, *parts) for line in part]
        end = "  ROOT r = (f32[], pred[4,4]) tuple(loss, k)"
        text = "\n".join([*lines, end])
        modules.append(read_module(f"HloModule m\n\n{HEAD}ENTRY main {{\n{text}\n}}\n"))
    found = explain_modules(*modules)
    return found.proved, [str(cause.in_short) for cause in found.causes]


def test_pooling_is_told_with_its_first_number() -> None:
    proved, causes = told((MAX, SECOND, MEAN), (AVG, SECOND, MEAN))
    assert proved
    assert [POOLING in cause for cause in causes] == [True], causes


def test_two_layers_are_two_causes() -> None:
    proved, causes = told((MAX, SECOND, MEAN), (AVG, SECOND, MASKED))
    assert proved
    assert sorted((POOLING in c, OF_MASK in c) for c in causes) == [(False, True), (True, False)]


@pytest.mark.parametrize("scaled", ["cosine", "sine"])
def test_what_else_the_forward_pass_has_is_told_as_well(scaled: str) -> None:
    other = (f"turned = f32[4,4] {scaled}(w)", *SECOND[:1], SECOND[1].replace("w)", "turned)"))
    proved, causes = told((MAX, SECOND, MEAN), (AVG, other, MEAN))
    assert proved
    assert any(POOLING in cause for cause in causes)
    assert any(scaled in cause for cause in causes), causes


def test_another_number_beside_pooling_that_stays_is_a_number() -> None:
    three = tuple(line.replace("constant(16)", "constant(3)") for line in MEAN)
    proved, causes = told((MAX, SECOND, MEAN), (MAX, SECOND, three))
    assert proved
    assert not any(POOLING in cause or OF_MASK in cause for cause in causes)


STATISTICS = (
    "four = f32[] constant(4)",
    "fours = f32[8] broadcast(four), dimensions={}",
    "sum = f32[8] reduce(x, zero), dimensions={0}, to_apply=add",
    "squares = f32[4,8] multiply(x, x)",
    "squared = f32[8] reduce(squares, zero), dimensions={0}, to_apply=add",
    "own = f32[8] divide(sum, fours)",
    "owns = f32[8] divide(squared, fours)",
    "rows = f32[1,8] reshape(own)",
    "more = f32[1,8] reshape(owns)",
    "both = f32[2,8] concatenate(rows, more), dimensions={0}",
)
OWN = ("stats = f32[2,8] copy(both)",)
TOGETHER = (
    "reduced = f32[2,8] all-reduce(both), replica_groups={{0,1,2,3}}, to_apply=add",
    "counts = f32[2,8] broadcast(four), dimensions={}",
    "stats = f32[2,8] divide(reduced, counts)",
)
NORMALIZED = (
    "first_row = f32[1,8] slice(stats), slice={[0:1], [0:8]}",
    "second_row = f32[1,8] slice(stats), slice={[1:2], [0:8]}",
    "power = f32[1,8] multiply(first_row, first_row)",
    "variance = f32[1,8] subtract(second_row, power)",
    "root = f32[1,8] rsqrt(variance)",
    "mean = f32[8] reshape(first_row)",
    "scale = f32[8] reshape(root)",
    "means = f32[4,8] broadcast(mean), dimensions={1}",
    "scales = f32[4,8] broadcast(scale), dimensions={1}",
    "distance = f32[4,8] subtract(x, means)",
    "pooled = f32[4,8] multiply(distance, scales)",
)
SYNCED = "A norm takes its statistics over the devices together in B, over each device's own batch"


@pytest.mark.parametrize("loss", [MEAN, MASKED])
def test_statistics_over_devices_are_one_cause(loss: tuple[str, ...]) -> None:
    proved, causes = told(
        (STATISTICS, OWN, NORMALIZED, SECOND, MEAN),
        (STATISTICS, TOGETHER, NORMALIZED, SECOND, loss),
    )
    assert proved
    assert [cause.startswith(SYNCED) for cause in causes].count(True) == 1, causes
    assert len(causes) == (1 if loss is MEAN else 2)


def test_statistics_that_stay_are_no_cause_beside_an_edit() -> None:
    _, causes = told(
        (STATISTICS, TOGETHER, NORMALIZED, SECOND, MEAN),
        (STATISTICS, TOGETHER, NORMALIZED, SECOND, MASKED),
    )
    assert not any("statistics" in cause for cause in causes), causes


OPTION = "An option of the optimizer (nesterov)"


@pytest.mark.parametrize("is_swapped", [True, False])
def test_a_layer_by_name_is_named_beside_an_option_of_the_optimizer(*, is_swapped: bool) -> None:
    a = explain_modules(read_module(trained("m")), read_module(trained("ahead", swap=is_swapped)))
    assert OPTION in str(a.verdict.what)
    notes = "\n".join(map(str, a.verdict.notes))
    assert ("Beside it:" in notes and POOLING in notes) == is_swapped, notes


def trained(step: str, *, swap: bool = False) -> str:
    """A step of SGD with momentum, which looks ahead or not, behind a pooling layer."""
    many = 12
    lines = [*START, *(AVG if swap else MAX), *SECOND, *MEAN, "t = f32[] parameter(3)"]
    lines += ["lr = f32[] parameter(4)", "ts = f32[4,4] broadcast(t), dimensions={}"]
    lines += ["ss = f32[4,4] broadcast(lr), dimensions={}"]
    for k in range(many):
        p, b = 5 + 2 * k, 6 + 2 * k
        lines += [
            f"p{k} = f32[4,4] parameter({p})",
            f"b{k} = f32[4,4] parameter({b})",
            f"g{k} = f32[4,4] dot(h, p{k}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
            f"old{k} = f32[4,4] multiply(b{k}, ts)",
            f"m{k} = f32[4,4] add(old{k}, g{k})",
            f"by{k} = f32[4,4] multiply(m{k}, ts)",
            f"ahead{k} = f32[4,4] add(g{k}, by{k})",
            f"d{k} = f32[4,4] multiply({step}{k}, ss)",
            f"n{k} = f32[4,4] add(p{k}, d{k})",
        ]
    given = ", ".join(f"n{k}, m{k}" for k in range(many))
    shapes = ", ".join(["f32[4,4]"] * (2 * many))
    text = "\n".join(f"  {line}" for line in lines)
    end = f"  ROOT r = (f32[], pred[4,4], {shapes}) tuple(loss, k, {given})"
    return f"HloModule m\n\n{HEAD}ENTRY main {{\n{text}\n{end}\n}}\n"
