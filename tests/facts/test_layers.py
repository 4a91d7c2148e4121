"""Layers by their names, and what only looks like one."""

from __future__ import annotations

import pytest

from xlagraph.facts.layers.cross_entropy import PLAIN, SMOOTHED, cross_entropies
from xlagraph.facts.layers.gelus import APPROXIMATE, GELU, gelus
from xlagraph.facts.layers.means import MASKED, MEAN, means
from xlagraph.facts.layers.norms import LAYER, RMS, norms
from xlagraph.facts.layers.pooling import AVG_POOL, MAX_POOL, pools
from xlagraph.facts.layers.rotary import HALVES, NEIGHBOURS, rotations
from xlagraph.facts.layers.statistics import OWN, TOGETHER, statistics
from xlagraph.hlo import read_module

HEAD = "".join(
    f"{name} {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {name}(p, q) }}\n\n"
    for name in ("add", "maximum")
)


def names(of, *lines: str) -> list[str]:  # type: ignore[no-untyped-def]
    """The names of what a module of these lines has."""
    *body, last = lines
    text = "\n".join((*(f"  {line}" for line in body), f"  ROOT {last}"))
    module = read_module(f"HloModule m\n\n{HEAD}ENTRY main {{\n{text}\n}}\n")
    return [layer.name for layer in of(module)]


X = ("x = f32[4,8] parameter(0)", "zero = f32[] constant(0)", "low = f32[] constant(-inf)")
WINDOW = "window={size=1x2 stride=1x2}"
RUNNING = "window={size=1x8 pad=0_0x7_0}"
COUNT = ("two = f32[] constant(2)", "n = f32[4,4] broadcast(two), dimensions={}")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((f"w = f32[4,4] reduce-window(x, low), {WINDOW}, to_apply=maximum",), [MAX_POOL]),
        (
            (
                f"w = f32[4,4] reduce-window(x, zero), {WINDOW}, to_apply=add",
                *COUNT,
                "m = f32[4,4] divide(w, n)",
            ),
            [AVG_POOL],
        ),
        (
            (
                "s = f32[4,8] multiply(x, x)",
                f"w = f32[4,4] reduce-window(s, zero), {WINDOW}, to_apply=add",
                *COUNT,
                "m = f32[4,4] divide(w, n)",
            ),
            [],
        ),
        ((f"w = f32[4,4] reduce-window(x, zero), {WINDOW}, to_apply=add",), []),
        (
            (f"w = f32[4,8] reduce-window(x, low), {RUNNING}, to_apply=maximum",),
            [],
        ),
    ],
    ids=["max", "avg", "powers", "derivative", "running"],
)
def test_pooling(lines: tuple[str, ...], name: list[str]) -> None:
    assert names(pools, *X, *lines) == name


def gelu(scale: str, cubic: float = 0.044715) -> list[str]:
    """``0.5 * x * (1 + tanh(scale * (x + cubic * x * x * x)))``."""
    numbers = {"h": "constant(0.5)", "one": "constant(1)", "s": scale, "c": f"constant({cubic})"}
    spread = [f"{k}s = f32[] {v}" for k, v in numbers.items()]
    spread += [f"{k} = f32[4,8] broadcast({k}s), dimensions={{}}" for k in numbers]
    return names(
        gelus,
        "x = f32[4,8] parameter(0)",
        *spread,
        "x2 = f32[4,8] multiply(x, x)",
        "x3 = f32[4,8] multiply(x2, x)",
        "cx = f32[4,8] multiply(c, x3)",
        "inner = f32[4,8] add(x, cx)",
        "si = f32[4,8] multiply(s, inner)",
        "t = f32[4,8] tanh(si)",
        "up = f32[4,8] add(t, one)",
        "hx = f32[4,8] multiply(h, x)",
        "y = f32[4,8] multiply(hx, up)",
    )


def test_gelu_with_tanh_whose_numbers_may_be_inputs() -> None:
    assert gelu("constant(0.797884583)") == [APPROXIMATE]
    assert gelu("parameter(1)") == [APPROXIMATE]
    assert gelu("constant(0.9)") == []
    assert gelu("parameter(1)", cubic=0.1) == []


def test_gelu_with_erf() -> None:
    lines = (
        "x = f32[4,8] parameter(0)",
        "r = f32[] constant(0.707106769)",
        "rs = f32[4,8] broadcast(r), dimensions={}",
        "o = f32[] constant(1)",
        "os = f32[4,8] broadcast(o), dimensions={}",
        "h = f32[] constant(0.5)",
        "hs = f32[4,8] broadcast(h), dimensions={}",
        "xr = f32[4,8] multiply(x, rs)",
        "e = f32[4,8] erf(xr)",
        "up = f32[4,8] add(e, os)",
        "hx = f32[4,8] multiply(x, hs)",
        "y = f32[4,8] multiply(hx, up)",
    )
    assert names(gelus, *lines) == [GELU]
    assert names(gelus, *lines[:-2]) == []


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("{[0:4], [0:4]}", "{[0:4], [4:8]}", [HALVES]),
        ("{[0:4], [0:8:2]}", "{[0:4], [1:8:2]}", [NEIGHBOURS]),
        ("{[0:4], [0:4]}", "{[0:4], [2:6]}", []),
    ],
)
def test_rotations(one: str, other: str, found: list[str]) -> None:
    lines = (
        "x = f32[4,8] parameter(0)",
        "c = f32[4,4] parameter(1)",
        "s = f32[4,4] parameter(2)",
        f"x1 = f32[4,4] slice(x), slice={one}",
        f"x2 = f32[4,4] slice(x), slice={other}",
        "c1 = f32[4,4] multiply(x1, c)",
        "s2 = f32[4,4] multiply(x2, s)",
        "a = f32[4,4] subtract(c1, s2)",
        "c2 = f32[4,4] multiply(x2, c)",
        "s1 = f32[4,4] multiply(x1, s)",
        "b = f32[4,4] add(c2, s1)",
        "y = f32[4,8] concatenate(a, b), dimensions={1}",
    )
    assert names(rotations, *lines) == found
    assert names(rotations, *lines[:-1], "y = f32[4,8] concatenate(a, c2), dimensions={1}") == []


LOSS = ("x = f32[8] parameter(0)", "zero = f32[] constant(0)")
MASK = ("k = pred[8] parameter(1)", "m = f32[8] convert(k)", "xm = f32[8] multiply(x, m)")
SUM = "s = f32[] reduce({}, zero), dimensions={{0}}, to_apply=add"


def test_means() -> None:
    count = "n = f32[] reduce(m, zero), dimensions={0}, to_apply=add"
    assert names(
        means, *LOSS, SUM.format("x"), "n = f32[] constant(8)", "y = f32[] divide(s, n)"
    ) == [MEAN]
    masked = (*LOSS, *MASK, SUM.format("xm"), count)
    guarded = ("o = f32[] constant(1)", "g = f32[] maximum(n, o)", "y = f32[] divide(s, g)")
    assert names(means, *masked, *guarded) == [MASKED]
    assert names(means, *LOSS, *MASK, SUM.format("x"), count, *guarded) == []
    weights = ("m = f32[8] parameter(1)", "xm = f32[8] multiply(x, m)")
    assert names(means, *LOSS, *weights, SUM.format("xm"), count, "y = f32[] divide(s, n)") == []


LOG_SOFTMAX = (
    *X,
    "t = s32[4] parameter(1)",
    "top = f32[4] reduce(x, low), dimensions={1}, to_apply=maximum",
    "tops = f32[4,8] broadcast(top), dimensions={0}",
    "d = f32[4,8] subtract(x, tops)",
    "e = f32[4,8] exponential(d)",
    "es = f32[4] reduce(e, zero), dimensions={1}, to_apply=add",
    "l = f32[4] log(es)",
    "ls = f32[4,8] broadcast(l), dimensions={0}",
    "p = f32[4,8] subtract(d, ls)",
    "i = s32[4,8] iota(), iota_dimension=1",
    "ts = s32[4,8] broadcast(t), dimensions={0}",
    "is = pred[4,8] compare(i, ts), direction=EQ",
    "hot = f32[4,8] convert(is)",
)


def test_cross_entropies() -> None:
    total = "s = f32[] reduce({}, zero), dimensions={{0,1}}, to_apply=add"
    plain = (*LOG_SOFTMAX, "n = f32[4,8] multiply(hot, p)", total.format("n"))
    assert names(cross_entropies, *plain) == [PLAIN]
    uniform = ("u = f32[] reduce(p, zero), dimensions={0,1}, to_apply=add", "y = f32[] add(s, u)")
    assert names(cross_entropies, *plain, *uniform) == [SMOOTHED]
    mixed = ("c = f32[] constant(0.01)", "cs = f32[4,8] broadcast(c), dimensions={}")
    mixed = (*mixed, "q = f32[4,8] add(hot, cs)", "n = f32[4,8] multiply(q, p)")
    assert names(cross_entropies, *LOG_SOFTMAX, *mixed, total.format("n")) == [SMOOTHED]


def test_a_penalty_on_confidence_smooths_no_labels() -> None:
    lines = (
        *LOG_SOFTMAX,
        "n = f32[4,8] multiply(hot, p)",
        "s = f32[] reduce(n, zero), dimensions={0,1}, to_apply=add",
        "prob = f32[4,8] exponential(p)",
        "h = f32[4,8] multiply(prob, p)",
        "hs = f32[] reduce(h, zero), dimensions={0,1}, to_apply=add",
        "y = f32[] add(s, hs)",
    )
    assert names(cross_entropies, *lines) == [PLAIN]


def norm(*, centred: bool, scaled: bool = True) -> list[str]:
    """A norm over the last axis, with or without its mean."""
    return names(
        norms,
        *X,
        "n = f32[] constant(8)",
        "ns = f32[4] broadcast(n), dimensions={}",
        "s = f32[4] reduce(x, zero), dimensions={1}, to_apply=add",
        "mean = f32[4] divide(s, ns)",
        "means = f32[4,8] broadcast(mean), dimensions={0}",
        "d = f32[4,8] subtract(x, means)" if centred else "d = f32[4,8] copy(x)",
        "sq = f32[4,8] multiply(d, d)",
        "v = f32[4] reduce(sq, zero), dimensions={1}, to_apply=add",
        "var = f32[4] divide(v, ns)",
        "r = f32[4] rsqrt(var)",
        "rs = f32[4,8] broadcast(r), dimensions={0}",
        "y = f32[4,8] multiply(d, rs)" if scaled else "y = f32[4,8] multiply(means, rs)",
    )


def test_norms() -> None:
    assert norm(centred=True) == [LAYER]
    assert norm(centred=False) == [RMS]
    assert norm(centred=False, scaled=False) == []


BATCH_NORM = (
    "c = f32[] constant(4)",
    "cs = f32[8] broadcast(c), dimensions={}",
    "s = f32[8] reduce(x, zero), dimensions={0}, to_apply=add",
    "q = f32[4,8] multiply(x, x)",
    "t = f32[8] reduce(q, zero), dimensions={0}, to_apply=add",
    "m0 = f32[8] divide(s, cs)",
    "v0 = f32[8] divide(t, cs)",
)
MEANS = ("m = f32[8] copy(m0)", "v1 = f32[8] copy(v0)")
OVER_DEVICES = tuple(
    f"{name} = f32[8] all-reduce({of}), replica_groups={{}}, to_apply=add"
    for name, of in (("m", "m0"), ("v1", "v0"))
)
VARIANCE = ("mm = f32[8] multiply(m, m)", "v = f32[8] subtract(v1, mm)", "r = f32[8] rsqrt(v)")
NO_MEAN = ("v = f32[8] add(v1, cs)", "r = f32[8] rsqrt(v)")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((*BATCH_NORM, *MEANS, *VARIANCE), [OWN]),
        ((*BATCH_NORM, *OVER_DEVICES, *VARIANCE), [TOGETHER]),
        ((*BATCH_NORM, *OVER_DEVICES, *NO_MEAN), []),
    ],
)
def test_statistics_of_norms_are_of_one_device_or_of_several(
    lines: tuple[str, ...], name: list[str]
) -> None:
    assert names(statistics, *X, *lines) == name
