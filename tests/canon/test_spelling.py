"""What XLA's parser takes for equal is equal here, and what is equal here is equal to it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hlo_helpers import FIXTURES, xla_module
from hypothesis import example, given
from hypothesis import strategies as st

from xlagraph.canon.form import digest
from xlagraph.canon.labels import Level
from xlagraph.canon.literals import canonical_literal, single
from xlagraph.canon.spelling import (
    DEFAULTS,
    HEADER_DEFAULTS,
    Memo,
    canonical_attribute,
    canonical_field,
    canonical_shape,
    one_spelling,
    quoted,
    split_list,
    unquoted,
)
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SUM = "s {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT z = f32[] add(x, y)\n}\n"
STEP = (
    "body {\n  b = (s32[]) parameter(0)\n  ROOT br = (s32[]) copy(b)\n}\n"
    "cond {\n  c = (s32[]) parameter(0)\n  ROOT cr = pred[] constant(true)\n}\n"
)


def module(line: str, before: str = SUM, header: str = "") -> str:
    """A module around one instruction."""
    return (
        f"HloModule m{header}\n{before}ENTRY e {{\n  p = f32[2,3]{{1,0}} parameter(0)\n"
        f"  q = f32[4,4]{{1,0}} parameter(1)\n  k = f32[] parameter(2)\n"
        f"  i = (s32[]) parameter(3)\n  ROOT r = {line}\n}}\n"
    )


SPELLINGS = [
    ("f32[3,2]{1,0} bitcast(p)", "f32[3,2] {1, 0} bitcast(p)"),
    ("f32[3,2]{1,0} bitcast(p)", "f32[3,2] bitcast(p)"),
    ("f32[3,2]{1,0} bitcast(p)", "f32 /* type */ [3, 2]{1,0:S(0)} bitcast(p)"),
    ("f32[2]{0} constant({0.5, 1})", "f32[2] constant({5e-1, 1.0})"),
    ("f32[] constant(0.1)", "f32[] constant(0.100000001)"),
    ("f64[] constant(0.1)", "f64[] constant(1e-1)"),
    ("s32[] constant(7)", "s32[] constant(007)"),
    ("pred[] constant(true)", "pred[] constant(1)"),
    ("pred[2]{0} constant({1, 0})", "pred[2]{0} constant({true, false})"),
    ("f32[2,2]{1,0} constant({ { 1, 2 }, { 3, 4 } })", "f32[2,2] constant({{1,2},/*i1=1*/{3,4}})"),
    ("c64[1]{0} constant({(1, 2)})", "c64[1]{0} constant({(1.0,2e0)})"),
    ("f32[1]{0} constant({3})", "f32[1]{0} constant(3)"),
    ("f32[2,3]{1,0} copy(p)", "f32[2,3]{1,0} copy(p), frontend_attributes={}"),
    (
        'f32[2,3]{1,0} copy(p), frontend_attributes={a="1",b="2"}',
        "f32[2,3]{1,0} copy(p), frontend_attributes={ b='2', a=\"1\" }",
    ),
    (
        'f32[2,3]{1,0} custom-call(p), custom_call_target="t", backend_config={"a": 1}',
        'f32[2,3]{1,0} custom-call(p), backend_config="{\\"a\\": 1}", custom_call_target="t"',
    ),
    ("(s32[]) while(i), condition=cond, body=body", "(s32[]) while(i), body=body, condition=cond"),
    ("f32[1,3]{1,0} slice(p), slice={[0:1], [0:3]}", "f32[1,3] slice(p), slice={[0:1:1],[0:3]}"),
    ("f32[2,4]{1,0} pad(p, k), padding=0_0x0_1", "f32[2,4]{1,0} pad(p, k), padding=0_0x0_1_0"),
    (
        "f32[2,2]{1,0} reduce-window(q, k), window={size=3x3}, to_apply=s",
        (
            "f32[2,2]{1,0} reduce-window(q, k), to_apply=s, "
            "window={pad=0_0x0_0 stride=1x1 size=3x3 rhs_dilate=1x1 lhs_dilate=1x1}"
        ),
    ),
    (
        "f32[2,4]{1,0} dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        (
            "f32[2,4]{1,0} dot(p, q), rhs_contracting_dims={ 00 }, lhs_contracting_dims={0}, "
            "operand_precision={default,default}, lhs_batch_dims={}, rhs_batch_dims={}"
        ),
    ),
]
DEVICES = [
    (
        "f32[4,3]{1,0} all-gather(p), dimensions={0}, replica_groups={{0,1},{2,3}}",
        "f32[4,3]{1,0} all-gather(p), replica_groups=[2,2]<=[4], dimensions={0}",
    ),
    (
        "f32[4,3]{1,0} all-gather(p), dimensions={0}, replica_groups={{0,2},{1,3}}",
        "f32[4,3]{1,0} all-gather(p), dimensions={0}, replica_groups=[2,2]<=[2,2]T(1,0)",
    ),
    (
        "f32[2] copy(p), sharding={devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}",
        "f32[2] copy(p), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={replicated}}",
    ),
]
"""Lists of devices, which XLA prints as they were written."""
OTHERS = [
    ("f32[] constant(0.1)", "f32[] constant(0.10000002)"),
    ("f32[] constant(0)", "f32[] constant(-0.0)"),
    ("f32[] constant(-0)", "f32[] constant(-0.0)"),
    ("f32[] constant(nan)", "f32[] constant(-nan)"),
    ("f64[] constant(0.1)", "f64[] constant(0.10000000000000002)"),
    ("f32[3,2]{1,0} bitcast(p)", "f32[3,2]{0,1} bitcast(p)"),
    ("f32[3,2]{1,0} bitcast(p)", "f32[3,2]{1,0:S(1)} bitcast(p)"),
    ("f32[3,2]{1,0} bitcast(p)", "f32[3,2]{1,0:T(2,2)} bitcast(p)"),
    (
        "f32[4,3]{1,0} all-gather(p), dimensions={0}, replica_groups={{0,1},{2,3}}",
        "f32[4,3]{1,0} all-gather(p), dimensions={0}, replica_groups=[2,2]<=[2,2]T(1,0)",
    ),
    (
        'f32[2,3]{1,0} custom-call(p), custom_call_target="t"',
        'f32[2,3]{1,0} custom-call(p), custom_call_target="t "',
    ),
    (
        'f32[2,3]{1,0} custom-call(p), custom_call_target="a b"',
        'f32[2,3]{1,0} custom-call(p), custom_call_target="a  b"',
    ),
    (
        'f32[2,3]{1,0} custom-call(p), custom_call_target="t", backend_config="/*x*/"',
        'f32[2,3]{1,0} custom-call(p), custom_call_target="t", backend_config=""',
    ),
    (
        'f32[2,3]{1,0} copy(p), frontend_attributes={a="01"}',
        'f32[2,3]{1,0} copy(p), frontend_attributes={a="1"}',
    ),
    (
        "f32[1,3]{1,0} slice(p), slice={[0:1], [0:3]}",
        "f32[1,3]{1,0} slice(p), slice={[1:2], [0:3]}",
    ),
]


def xla_text(text: str) -> str:
    """XLA's own print of what it reads."""
    return str(xla_module(text).to_string())


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_another_spelling_is_no_difference(one, other):
    first, second = module(one, SUM + STEP), module(other, SUM + STEP)
    assert xla_text(first) == xla_text(second)
    a, b = read_module(first), read_module(second)
    assert diff_modules(a, b).same
    assert digest(a, Level.NAMES) == digest(b, Level.NAMES)
    assert explain_modules(a, b).causes == ()


@pytest.mark.parametrize(("one", "other"), DEVICES)
def test_devices_may_be_written_in_short(one, other):
    first, second = module(one), module(other)
    assert xla_text(first) != xla_text(second)  # it keeps how they were written
    assert diff_modules(read_module(first), read_module(second)).same


@st.composite
def device_lists(draw):
    """Sizes, and the order of dimensions, of a list in short form."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return sizes, draw(st.permutations(range(len(sizes))))


@given(device_lists())
def test_a_list_in_short_is_iota_reshaped_and_transposed(case):
    sizes, order = case
    devices = np.arange(math.prod(sizes)).reshape(sizes).transpose(order).reshape(-1)
    short = f"[1,{len(devices)}]<=[{','.join(map(str, sizes))}]T({','.join(map(str, order))})"
    assert canonical_attribute("replica_groups", short) == (
        "{{" + ",".join(map(str, devices)) + "}}"
    )


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_another_value_is_one(one, other):
    first, second = module(one), module(other)
    assert xla_text(first) != xla_text(second)
    a, b = read_module(first), read_module(second)
    assert not diff_modules(a, b).same
    assert digest(a, Level.NAMES) != digest(b, Level.NAMES)


INSTRUCTIONS = {
    "api_version": 'custom-call(p), custom_call_target="t"',
    "async_execution_thread": None,
    "batch_group_count": "convolution(q, q), dim_labels=bf_io->bf",
    "constrain_layout": "all-gather(p), dimensions={0}, replica_groups={}",
    "custom_call_has_side_effect": 'custom-call(p), custom_call_target="t"',
    "feature_group_count": "convolution(q, q), dim_labels=bf_io->bf",
    "frontend_attributes": "copy(p)",
    "indices_are_sorted": "gather(q, n), offset_dims={0}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}",
    "is_host_transfer": "send(p, t), channel_id=1",
    "is_reverse": None,
    "is_stable": "sort(q), dimensions={0}, to_apply=lt",
    "lhs_batch_dims": "dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "operand_batching_dims": "gather(q, n), offset_dims={0}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}",
    "start_indices_batching_dims": "gather(q, n), offset_dims={0}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}",
    "input_batching_dims": "scatter(q, n, u), to_apply=s, update_window_dims={0}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0",
    "scatter_indices_batching_dims": "scatter(q, n, u), to_apply=s, update_window_dims={0}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0",
    "unique_indices": "scatter(q, n, u), to_apply=s, update_window_dims={0}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0",
    "output_to_operand_aliasing": 'custom-call(p), custom_call_target="t"',
    "rhs_batch_dims": "dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "use_global_device_ids": "all-gather(p), dimensions={0}, replica_groups={}",
}
"""An instruction that takes each attribute; None where the tested parser knows none."""
SHAPES = {"send": "(f32[2,3]{1,0}, u32[], token[])", "gather": "f32[4]{0}"}
MORE = (
    "lt {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
    "  ROOT z = pred[] compare(x, y), direction=LT\n}\n"
)


@pytest.mark.parametrize("key", DEFAULTS)
def test_the_default_of_an_attribute_is_what_xla_takes_for_it(key):
    line = INSTRUCTIONS[key]
    if line is None:
        pytest.skip("not known to the tested parser in text of its own")
    opcode = line.partition("(")[0]
    shape = SHAPES.get(opcode, "f32[4,4]{1,0}" if "q" in line else "f32[2,3]{1,0}")
    plain = module_with_extras(f"{shape} {line}")
    said = module_with_extras(f"{shape} {line}, {key}={DEFAULTS[key]}")
    assert xla_text(plain) == xla_text(said)
    assert diff_modules(read_module(plain), read_module(said)).same


def module_with_extras(line: str) -> str:
    """As `module`, with indices, updates and a token in the entry."""
    head, _, root = module(line, SUM + MORE).rpartition("  ROOT")
    extras = (
        "  n = s32[1]{0} parameter(4)\n  u = f32[4]{0} parameter(5)\n  t = token[] after-all()\n"
    )
    return f"{head}{extras}  ROOT{root}"


@pytest.mark.parametrize("key", HEADER_DEFAULTS)
def test_the_default_of_a_header_field_is_what_xla_takes_for_it(key):
    plain, said = (
        module("f32[] copy(k)"),
        module("f32[] copy(k)", header=f", {key}={HEADER_DEFAULTS[key]}"),
    )
    assert xla_text(plain) == xla_text(said)
    assert canonical_field(key, HEADER_DEFAULTS[key]) == ""
    assert diff_modules(read_module(plain), read_module(said)).same


def test_the_pair_that_was_reported_as_a_cause():
    """Only spelling differs: space in a layout, and one left out."""
    text = "HloModule m\nENTRY e {\n p = f32[2,3] parameter(0)\n"
    text += " ROOT b = f32[3,2] {1, 0} bitcast(p)\n}"
    a, b = read_module(text), read_module(text.replace(" {1, 0}", ""))
    assert diff_modules(a, b).same


def test_dialects_that_say_the_same_are_the_same():
    names = ["long_form", "no_sigils", "typed_without_sigils", "sigils_without_types"]
    texts = [(FIXTURES / "dialects" / f"{name}.hlo").read_text() for name in names]
    modules = [read_module(text) for text in texts]
    for other in modules[1:]:
        if len(other) == len(modules[0]):
            assert diff_modules(modules[0], other).same == (
                digest(modules[0], Level.PARAMETER_ORDER) == digest(other, Level.PARAMETER_ORDER)
            )


# -- texts -----------------------------------------------------------------------------------


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=20))
def test_a_string_keeps_what_it_says(text):
    assert unquoted(quoted(text)) == text
    assert one_spelling(f"{{a={quoted(text)}}}") == f"{{a={quoted(text)}}}"


@given(st.lists(st.integers(-9, 99), max_size=6), st.sampled_from(["", " ", "\n", "/*x*/", "  "]))
def test_spaces_between_tokens_do_not_count(numbers, space):
    spaced = "{" + f"{space},{space}".join(map(str, numbers)) + space + "}"
    assert one_spelling(spaced) == "{" + ",".join(map(str, numbers)) + "}"


def test_spaces_that_part_words_count():
    assert one_spelling("{size=3x3  pad=1_1x1_1}") == "{size=3x3 pad=1_1x1_1}"
    assert one_spelling("a b") != one_spelling("ab")


def test_lists_are_split_at_their_own_commas():
    assert split_list('a={b,c}, d="e,f",g', ",") == ["a={b,c}", ' d="e,f"', "g"]


def test_a_list_of_devices_is_written_out_up_to_a_size():
    assert canonical_attribute("replica_groups", "[1,3]<=[3]") == "{{0,1,2}}"
    huge = "[1,99999999]<=[99999999]"
    assert canonical_attribute("replica_groups", huge) == huge
    assert canonical_attribute("replica_groups", "[2,3]<=[5]") == "[2,3]<=[5]"


def test_shapes_that_cannot_be_read_stay():
    assert canonical_shape("tuple") == "tuple"
    assert canonical_shape("") == ""


def test_results_are_forgotten_where_they_are_too_many():
    memo = Memo()
    memo.limit = 10
    memo.keep(("a", "bc"), "d")
    memo.keep(("e", "fg"), "h")
    assert len(memo) == 2
    memo.keep(("x", "yz"), "u")
    assert dict(memo) == {("x", "yz"): "u"}


# -- numbers ---------------------------------------------------------------------------------


def xla_constant(shape: str, text: str) -> str:
    """How XLA prints a constant that it has read."""
    printed = xla_text(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({text})\n}}\n")
    found = re.search(r" constant\((.*)\)\n", printed)
    assert found
    return found[1]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(16777217.0)
@example(1e-45)
def test_single_precision_is_read_as_xla_reads_it(number):
    text = single(number)
    assert xla_constant("f32[]", text) == xla_constant("f32[]", repr(number))
    if text != "-0.0":  # which XLA prints without a point, and reads as a zero without a sign
        assert canonical_literal("f32[]", xla_constant("f32[]", repr(number))) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e38, min_value=-1e38),
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e38, min_value=-1e38),
    st.sampled_from(["f32[]", "f64[]"]),
)
def test_numbers_are_equal_where_xla_prints_them_equal(one, other, shape):
    ours = canonical_literal(shape, repr(one)) == canonical_literal(shape, repr(other))
    assert ours == (xla_constant(shape, repr(one)) == xla_constant(shape, repr(other)))


@given(st.integers(-128, 127), st.integers(0, 3))
def test_integers(number, zeros):
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    text = f"{sign}{'0' * zeros}{digits}"
    assert canonical_literal("s8[]", text) == xla_constant("s8[]", text)


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=65, max_size=80)
)
def test_many_numbers_are_told_apart_as_few_are(numbers):
    shape = f"f32[{len(numbers)}]"
    text = "{" + ", ".join(map(repr, numbers)) + "}"
    short = "{" + ", ".join(map(single, numbers)) + "}"
    assert canonical_literal(shape, text) == canonical_literal(shape, short)
    again = [float(word) for word in canonical_literal(shape, text).strip("{}").split(", ")]
    assert np.array_equal(np.float32(again), np.float32(numbers))
