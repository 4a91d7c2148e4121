"""What instructions compute, against XLA's own execution on its CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xla_oracle import Oracle

from xlagraph.evaluate import evaluate
from xlagraph.hlo import read_module

if TYPE_CHECKING:
    from collections.abc import Iterator

UNARY = (
    *("abs", "cbrt", "ceil", "cosine", "exponential", "exponential-minus-one", "floor", "erf"),
    *("logistic", "negate", "round-nearest-afz", "round-nearest-even", "sign", "sine", "tan"),
    "tanh",
)
UNARY_POSITIVE = ("log", "log-plus-one", "rsqrt", "sqrt")
UNARY_INTEGER = ("abs", "negate", "not", "popcnt", "count-leading-zeros", "sign")
BINARY = ("add", "atan2", "divide", "maximum", "minimum", "multiply", "remainder", "subtract")
BINARY_INTEGER = (
    *("add", "and", "divide", "maximum", "minimum", "multiply", "or", "remainder", "shift-left"),
    *("shift-right-arithmetic", "shift-right-logical", "subtract", "xor"),
)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def module(result: str, body: str, parameters: tuple[str, ...], before: str = "") -> str:
    """A module with one instruction; ``{0}`` stands for its first parameter."""
    lines = [f"  p{k} = {shape} parameter({k})" for k, shape in enumerate(parameters)]
    lines.append(f"  ROOT r = {result} {body}")
    return "HloModule m\n\n" + before + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def agree(oracle: Oracle, text: str, seed: int = 0, tolerance: float = 2e-5) -> list[np.ndarray]:
    """Asks both for the same arguments; what this project computes."""
    arguments, wanted = oracle.values(text, seed)
    found = evaluate(read_module(text, "m"), arguments)
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        if x.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y.astype(x.dtype), rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize("opcode", UNARY)
def test_of_one_float(oracle, opcode):
    agree(oracle, module("f32[40]", f"{opcode}(p0)", ("f32[40]",)))


@pytest.mark.parametrize("opcode", UNARY_POSITIVE)
def test_of_one_float_that_may_be_none(oracle, opcode):
    agree(oracle, module("f32[40]", f"{opcode}(p0)", ("f32[40]",)))


@pytest.mark.parametrize("opcode", UNARY_INTEGER)
@pytest.mark.parametrize("kind", ["s32", "s8"])
def test_of_one_integer(oracle, opcode, kind):
    agree(oracle, module(f"{kind}[40]", f"{opcode}(p0)", (f"{kind}[40]",)))


@pytest.mark.parametrize("opcode", BINARY)
def test_of_two_floats(oracle, opcode):
    agree(oracle, module("f32[40]", f"{opcode}(p0, p1)", ("f32[40]", "f32[40]")))


@pytest.mark.parametrize("opcode", BINARY_INTEGER)
@pytest.mark.parametrize("kind", ["s32", "u8", "s64"])
def test_of_two_integers(oracle, opcode, kind):
    shape = f"{kind}[60]"
    agree(oracle, module(shape, f"{opcode}(p0, p1)", (shape, shape)))


def test_integers_are_divided_by_anything():
    """What ``HloEvaluator`` gives; XLA's CPU may end its process over it."""
    least = -(2**31)
    text = module("s32[6]", "divide(p0, p1)", ("s32[6]", "s32[6]"))
    given = [np.array([7, least, 5, 0, least, 9]), np.array([0, -1, -1, 0, 0, 4])]
    assert evaluate(read_module(text, "m"), given)[0].tolist() == [-1, least, -5, -1, -1, 2]
    text = text.replace("divide", "remainder")
    assert evaluate(read_module(text, "m"), given)[0].tolist() == [7, 0, 0, 0, least, 1]
    text = module("u32[2]", "divide(p0, p1)", ("u32[2]", "u32[2]"))
    given = [np.array([7, 2**32 - 1]), np.array([0, 2])]
    assert evaluate(read_module(text, "m"), given)[0].tolist() == [2**32 - 1, 2**31 - 1]


def test_quotients_have_signs(oracle):
    for opcode in ("divide", "remainder"):
        text = (
            "HloModule m\n\nENTRY e {\n  x = s32[4] constant({7, -7, 7, -7})\n"
            f"  y = s32[4] constant({{2, 2, -2, -2}})\n  ROOT r = s32[4] {opcode}(x, y)\n}}\n"
        )
        agree(oracle, text)


@pytest.mark.parametrize("opcode", ["shift-left", "shift-right-logical", "shift-right-arithmetic"])
def test_shifts_beyond_the_width(oracle, opcode):
    text = (
        "HloModule m\n\nENTRY e {\n  x = s32[6] constant({7, -7, 7, -7, 1, -1})\n"
        f"  y = s32[6] constant({{31, 31, 32, 40, -1, 1}})\n  ROOT r = s32[6] {opcode}(x, y)\n}}\n"
    )
    agree(oracle, text)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("order", ["", ", type=TOTALORDER"])
def test_comparisons(oracle, direction, order):
    numbers = "{nan, -nan, 0, -0.0, inf, -inf, 1.5, -1.5}"
    text = (
        f"HloModule m\n\nENTRY e {{\n  x = f32[8] constant({numbers})\n"
        "  a = f32[8,8] broadcast(x), dimensions={0}\n  b = f32[8,8] broadcast(x), dimensions={1}\n"
        f"  ROOT r = pred[8,8] compare(a, b), direction={direction}{order}\n}}\n"
    )
    agree(oracle, text)


@pytest.mark.parametrize("target", ["bf16", "f16", "f64", "s32", "s8", "u8", "pred", "f8e5m2"])
def test_floats_are_converted(oracle, target):
    back = f"  m = {target}[12] convert(x)\n  ROOT r = f32[12] convert(m)\n}}\n"
    numbers = "{1.00390625, 1.01171875, -2.5, 3.5, 1e9, -1e9, nan, 0.1, 70000, 1e-7, inf, 300.7}"
    agree(oracle, f"HloModule m\n\nENTRY e {{\n  x = f32[12] constant({numbers})\n{back}")


@pytest.mark.parametrize("pair", [("s32", "f32"), ("s64", "s8"), ("s32", "u32"), ("pred", "f32")])
def test_integers_are_converted(oracle, pair):
    agree(oracle, module(f"{pair[1]}[30]", "convert(p0)", (f"{pair[0]}[30]",)))


@pytest.mark.parametrize(
    ("result", "operand"),
    [("u32[5]", "f32[5]"), ("f32[5]", "s32[5]"), ("u8[5,4]", "f32[5]"), ("f32[5]", "u16[5,2]"),
     ("u16[5]", "bf16[5]"), ("f64[]", "u32[2]")],
)  # fmt: skip
def test_bits_are_taken_as_they_are(oracle, result, operand):
    agree(oracle, module(result, "bitcast-convert(p0)", (operand,)))


STRUCTURE = {
    "broadcast": ("f32[2,3,4]", "broadcast(p0), dimensions={0,2}", ("f32[2,4]",)),
    "reshape": ("f32[4,6]", "reshape(p0)", ("f32[2,3,4]",)),
    "transpose": ("f32[4,2,3]", "transpose(p0), dimensions={2,0,1}", ("f32[2,3,4]",)),
    "reverse": ("f32[2,3,4]", "reverse(p0), dimensions={0,2}", ("f32[2,3,4]",)),
    "slice": ("f32[1,2]", "slice(p0), slice={[1:2], [0:4:2]}", ("f32[3,5]",)),
    "pad": ("f32[6,2]", "pad(p0, p1), padding=1_2_1x-1_0", ("f32[2,3]", "f32[]")),
    "concatenate": ("f32[2,7]", "concatenate(p0, p1), dimensions={1}", ("f32[2,3]", "f32[2,4]")),
    "iota": ("s32[2,3]", "iota(), iota_dimension=1", ()),
    "dynamic-slice": (
        "f32[2,2]",
        "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,2}",
        ("f32[3,4]", "s32[]", "s32[]"),
    ),
    "dynamic-update-slice": (
        "f32[3,4]",
        "dynamic-update-slice(p0, p1, p2, p3)",
        ("f32[3,4]", "f32[2,2]", "s32[]", "s32[]"),
    ),
    "clamp": ("f32[9]", "clamp(p0, p1, p2)", ("f32[]", "f32[9]", "f32[]")),
    "select": ("f32[9]", "select(p0, p1, p2)", ("pred[9]", "f32[9]", "f32[9]")),
    "select-scalar": ("f32[9]", "select(p0, p1, p2)", ("pred[]", "f32[9]", "f32[9]")),
    "dot": (
        "f32[5,2,4]",
        (
            "dot(p0, p1), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
            "rhs_contracting_dims={2}"
        ),
        ("f32[2,5,3]", "f32[5,4,3]"),
    ),
    "dot-integers": (
        "s32[2,4]",
        "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ("s32[2,3]", "s32[3,4]"),
    ),
    "complex": ("c64[4]", "complex(p0, p1)", ("f32[4]", "f32[4]")),
    "fft": ("c64[2,5]", "fft(p0), fft_type=RFFT, fft_length={8}", ("f32[2,8]",)),
}


@pytest.mark.parametrize("name", STRUCTURE)
@pytest.mark.parametrize("seed", [0, 1])
def test_structure_and_products(oracle, name, seed):
    result, body, parameters = STRUCTURE[name]
    agree(oracle, module(result, body, parameters), seed)


CONVOLUTIONS = {
    "plain": ("f32[2,4,6,6]", "f32[2,3,8,8]", "f32[4,3,3,3]", "size=3x3", ""),
    "padded": (
        "f32[2,4,4,5]",
        "f32[2,3,8,8]",
        "f32[4,3,3,3]",
        "size=3x3 stride=2x2 pad=1_1x1_2",
        "",
    ),
    "lhs dilated": (
        "f32[2,4,13,13]",
        "f32[2,3,8,8]",
        "f32[4,3,3,3]",
        "size=3x3 lhs_dilate=2x2",
        "",
    ),
    "rhs dilated": ("f32[2,4,4,4]", "f32[2,3,8,8]", "f32[4,3,3,3]", "size=3x3 rhs_dilate=2x2", ""),
    "reversed": ("f32[2,4,6,6]", "f32[2,3,8,8]", "f32[4,3,3,3]", "size=3x3 rhs_reversal=1x0", ""),
    "cut": ("f32[2,4,4,6]", "f32[2,3,8,8]", "f32[4,3,3,3]", "size=3x3 pad=-1_-1x0_0", ""),
    "feature groups": (
        "f32[2,6,6,6]",
        "f32[2,4,8,8]",
        "f32[6,2,3,3]",
        "size=3x3",
        ", feature_group_count=2",
    ),
    "batch groups": (
        "f32[2,6,6,6]",
        "f32[4,3,8,8]",
        "f32[6,3,3,3]",
        "size=3x3",
        ", batch_group_count=2",
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(oracle, name):
    result, x, w, window, more = CONVOLUTIONS[name]
    body = f"convolution(p0, p1), window={{{window}}}, dim_labels=bf01_oi01->bf01{more}"
    agree(oracle, module(result, body, (x, w)))


def test_convolution_labels(oracle):
    body = "convolution(p0, p1), window={size=2x3}, dim_labels=01bf_1i0o->f1b0"
    agree(oracle, module("f32[4,4,3,7]", body, ("f32[8,6,3,5]", "f32[3,5,2,4]")))


ADD = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n\n"
GE = (
    "ge {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
    "  ROOT r = pred[] compare(x, y), direction=GE\n}\n\n"
)
ODD = (
    "odd {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  s = f32[] add(x, y)\n"
    "  t = f32[] multiply(x, y)\n  ROOT r = f32[] add(s, t)\n}\n\n"
)
ARGMAX = """argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  el = pred[] and(e, l)
  t = pred[] or(g, el)
  v = f32[] select(t, a, b)
  k = s32[] select(t, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k)
}

"""


@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
def test_reductions(oracle, opcode):
    before = ADD.replace("add(x", f"{opcode}(x")
    body = "reduce(p0, p1), dimensions={0,2}, to_apply=add"
    agree(oracle, module("f32[3]", body, ("f32[2,3,4]", "f32[]"), before))


def test_reduction_by_more_than_one_instruction(oracle):
    """(1 + x)(1 + y) - 1, for which the order does not matter."""
    body = "reduce(p0, p1), dimensions={1}, to_apply=odd"
    agree(oracle, module("f32[3]", body, ("f32[3,7]", "f32[]"), ODD), tolerance=1e-3)


def test_reduction_of_two_arrays(oracle):
    text = (
        "HloModule m\n\n" + ARGMAX + "ENTRY e {\n  p0 = f32[3,7] parameter(0)\n"
        "  k = s32[3,7] iota(), iota_dimension=1\n  v = f32[] constant(-inf)\n"
        "  z = s32[] constant(0)\n"
        "  ROOT r = (f32[3], s32[3]) reduce(p0, k, v, z), dimensions={1}, to_apply=argmax\n}\n"
    )
    agree(oracle, text)


@pytest.mark.parametrize("window", ["size=1x3 stride=1x2 pad=0_0x1_1", "size=2x3 rhs_dilate=1x2"])
def test_windows_are_reduced(oracle, window):
    result = "f32[4,4]" if "stride" in window else "f32[3,4]"
    body = f"reduce-window(p0, p1), window={{{window}}}, to_apply=add"
    agree(oracle, module(result, body, ("f32[4,8]", "f32[]"), ADD))


def test_values_are_scattered_to_what_was_selected(oracle):
    body = (
        "select-and-scatter(p0, p1, p2), window={size=2x3 stride=2x2 pad=0_0x1_1}, select=ge, "
        "scatter=add"
    )
    agree(oracle, module("f32[4,7]", body, ("f32[4,7]", "f32[2,4]", "f32[]"), ADD + GE))


GATHERS = {
    "rows": (
        "f32[5,4]",
        "f32[7,4]",
        "s32[5]",
        (
            "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,4}"
        ),
    ),
    "windows": (
        "f32[2,5,3]",
        "f32[4,6]",
        "s32[5,2]",
        (
            "offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, "
            "index_vector_dim=1, slice_sizes={2,3}"
        ),
    ),
    "batched": (
        "f32[3,5]",
        "f32[3,6]",
        "s32[3,5,1]",
        (
            "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
            "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
            "slice_sizes={1,1}"
        ),
    ),
}


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_gathers(oracle, name, seed):
    result, x, indices, attributes = GATHERS[name]
    agree(oracle, module(result, f"gather(p0, p1), {attributes}", (x, indices)), seed)


SCATTERS = {
    "rows": (
        "f32[4,3]",
        "s32[5,1]",
        "f32[5,3]",
        (
            "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1"
        ),
    ),
    "windows": (
        "f32[4,6]",
        "s32[3,2]",
        "f32[3,2,2]",
        (
            "update_window_dims={1,2}, inserted_window_dims={}, "
            "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1"
        ),
    ),
    "batched": (
        "f32[3,6]",
        "s32[3,5,1]",
        "f32[3,5]",
        (
            "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1},"
            " input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2"
        ),
    ),
}


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_scatters(oracle, name, seed):
    x, indices, updates, attributes = SCATTERS[name]
    body = f"scatter(p0, p1, p2), {attributes}, to_apply=add"
    agree(oracle, module(x, body, (x, indices, updates), ADD), seed)


LESS = """less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}

"""


def test_sorts_are_stable(oracle):
    body = "sort(p0, p1), dimensions={1}, is_stable=true, to_apply=less"
    result = "(s32[3,20], f32[3,20])"
    agree(oracle, module(result, body, ("s32[3,20]", "f32[3,20]"), LESS))


LOOP = """step {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  k = s32[] add(i, one)
  y = f32[3] cosine(x)
  ROOT r = (s32[], f32[3]) tuple(k, y)
}

more {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}

"""
BRANCHES = """up {
  x = f32[3] parameter(0)
  ROOT y = f32[3] sine(x)
}

down {
  x = f32[3] parameter(0)
  ROOT y = f32[3] negate(x)
}

"""


def test_loops(oracle):
    text = (
        "HloModule m\n\n"
        + LOOP
        + "ENTRY e {\n  n = s32[] parameter(0)\n  x = f32[3] parameter(1)\n"
        "  s = (s32[], f32[3]) tuple(n, x)\n"
        "  ROOT r = (s32[], f32[3]) while(s), condition=more, body=step\n}\n"
    )
    agree(oracle, text)


@pytest.mark.parametrize("seed", range(4))
def test_branches(oracle, seed):
    text = (
        "HloModule m\n\n" + BRANCHES + "ENTRY e {\n  n = s32[] parameter(0)\n"
        "  x = f32[3] parameter(1)\n"
        "  ROOT r = f32[3] conditional(n, x, x), branch_computations={up, down}\n}\n"
    )
    agree(oracle, text, seed)
    keys = "true_computation=up, false_computation=down"
    text = text.replace("branch_computations={up, down}", keys).replace("s32[]", "pred[]")
    agree(oracle, text, seed)


def test_calls_and_maps(oracle):
    before = ADD + BRANCHES
    agree(oracle, module("f32[3]", "call(p0), to_apply=up", ("f32[3]",), before))
    body = "map(p0, p1), dimensions={0}, to_apply=odd"
    agree(oracle, module("f32[3]", body, ("f32[3]", "f32[3]"), ODD))


NORMS = {
    "training": (
        "(f32[2,3,4], f32[3], f32[3])",
        "batch-norm-training(p0, p1, p2)",
        ("f32[2,3,4]", "f32[3]", "f32[3]"),
    ),
    "grad": (
        "(f32[2,3,4], f32[3], f32[3])",
        "batch-norm-grad(p0, p1, p2, a, p4)",
        ("f32[2,3,4]", "f32[3]", "f32[3]", "f32[3]", "f32[2,3,4]"),
    ),
    "inference": (
        "f32[2,3,4]",
        "batch-norm-inference(p0, p1, p2, p3, a)",
        ("f32[2,3,4]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(oracle, name):
    result, body, parameters = NORMS[name]
    text = module(result, body + ", epsilon=0.01, feature_index=1", parameters)
    variance = "p3" if name == "grad" else "p4"
    if name != "training":
        text = text.replace("  ROOT", f"  a = f32[3] abs({variance})\n  ROOT")
    agree(oracle, text, tolerance=2e-4)


def test_linear_algebra(oracle):
    solve = "triangular-solve(a, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
    text = module("f32[3,2]", solve, ("f32[3,3]", "f32[3,2]"))
    far = "  e = f32[3,3] constant({{4,0,0},{0,4,0},{0,0,4}})\n  a = f32[3,3] add(p0, e)\n"
    agree(oracle, text.replace("  ROOT", f"{far}  ROOT"), tolerance=1e-3)
    text = module("f32[3,3]", "cholesky(b), lower=true", ("f32[3,3]",))
    square = "  b = f32[3,3] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    found = evaluate(read_module(text.replace("  ROOT", f"{far}{square}  ROOT"), "m"), [np.eye(3)])
    np.testing.assert_allclose(found[0], 5 * np.eye(3))


def test_largest_values(oracle):
    agree(oracle, module("(f32[2,3], s32[2,3])", "topk(p0), k=3, largest=true", ("f32[2,9]",)))
