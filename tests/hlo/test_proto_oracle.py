"""Protobufs that XLA made of a text read as that text does; XLA's own printing is the judge."""

from __future__ import annotations

import hlo_strategies
import pytest
from hlo_helpers import FIXTURES, XLA_REFUSES, xla_module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proto_helpers import (
    canonical,
    message,
    module,
    printed,
    proto_and_text,
    row,
    scalar,
    xla_proto,
)

from xlagraph.canon.labels import Level
from xlagraph.hlo import open_entries, read_module
from xlagraph.hlo.printer import print_module
from xlagraph.hlo.proto.numbers import TYPES
from xlagraph.hlo.proto.reader import read_proto
from xlagraph.hlo.proto.shapes import ELEMENT_TYPES
from xlagraph.hlo.verify import verify

DIALECTS = sorted((FIXTURES / "dialects").glob("*.hlo"))
CORPUS = sorted((FIXTURES / "corpus").rglob("*.hlo*.gz")) + sorted(
    (FIXTURES / "corpus").rglob("*optimizations.txt.gz")
)
XLA_CHANGES = {
    "every_opcode": "prints asynchronous calls of one instruction under its name",
    "execution_thread": "prints asynchronous calls of one instruction under its name",
    "instruction_alone": "calls the module of a lone instruction scheduled",
    "instruction_of_named_types": "calls the module of a lone instruction scheduled",
    "layouts_newer": "has no sparse layouts any more",
    "literals": "reads -0 in a complex number as 0",
    "strings": "escapes line ends in strings",
    "windows_and_slices": "leaves out padding within dimensions where there is none",
}
"""Texts that XLA prints differently, so that only what it prints can be equal."""


def graphs(path):
    """The texts of a corpus file, each graph once."""
    entries = open_entries(str(path)).entries
    return {entry.graph_hash or entry.ordinal: entry.source().text for entry in entries}.values()


def assert_equal_to_text(proto, text, level=Level.NAMES):
    """A protobuf and a text of one module: equal canonical text."""
    made, expected = read_proto(proto), read_module(text)
    verify(made)
    assert canonical(made, level) == canonical(expected, level)


@pytest.mark.parametrize("path", DIALECTS, ids=lambda path: path.stem)
def test_dialects(path):
    if path.stem in XLA_REFUSES:
        pytest.skip(XLA_REFUSES[path.stem])
    text = path.read_bytes().decode()
    assert_equal_to_text(*proto_and_text(text))
    if path.stem not in XLA_CHANGES:
        assert_equal_to_text(xla_proto(text), text, Level.DEAD_CODE)  # XLA orders instructions


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_corpus(path):
    for text in graphs(path):
        assert_equal_to_text(*proto_and_text(text))
        if not path.name.startswith("jax_literals"):  # XLA's parser reads -0 in a complex as 0
            assert_equal_to_text(xla_proto(text), text, Level.DEAD_CODE)


def test_attribute_lists_are_those_that_xla_prints():
    """Not only the values: for every opcode each attribute list, in order, is XLA's."""
    text = (FIXTURES / "dialects" / "every_opcode.hlo").read_text()
    proto, theirs = proto_and_text(text)
    made, expected = read_proto(proto), read_module(theirs)
    by_name = dict(zip(expected.names, range(len(expected)), strict=True))
    assert sorted(made.names) == sorted(expected.names)
    for i, name in enumerate(made.names):
        other = by_name[name]
        assert made.attributes[i].text == expected.attributes[other].text, name
        assert made.shapes[i] == expected.shapes[other], name
        assert made.payloads.get(i) == expected.payloads.get(other), name
    assert made.header == expected.header


def test_xla_reads_what_is_printed_of_a_protobuf():
    text = (FIXTURES / "dialects" / "every_opcode.hlo").read_text()
    proto, theirs = proto_and_text(text)
    assert printed(xla_module(print_module(read_proto(proto)))) == theirs


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hlo_strategies.modules())
def test_any_module_reads_alike_from_text_and_protobuf(text):
    # Computations that nothing calls stand in any order.
    assert_equal_to_text(*proto_and_text(text), Level.DEAD_CODE)


# --- literals ------------------------------------------------------------------------------

UNSUPPORTED = {"s1", "u1", "f6e3m2fn", "f6e2m3fn"}
"""Types that XLA does not take in a protobuf."""
SIZES = {"pred": 1, "c64": 8, "c128": 16}
INTEGERS = {"s32s": 32, "s64s": 64, "u32s": 32, "u64s": 64}


@st.composite
def literals(draw: st.DrawFn):
    """A LiteralProto of any type, shape and layout, with any bits; as XLA would write it."""
    kind = draw(
        st.sampled_from(sorted(kind for kind in TYPES if ELEMENT_TYPES[kind] not in UNSUPPORTED))
    )
    name, field = ELEMENT_TYPES[kind], TYPES[kind].field
    dimensions = draw(st.lists(st.integers(0, 4), max_size=4))
    order = draw(st.permutations(range(len(dimensions))))
    shape = message(
        "ShapeProto",
        element_type=kind,
        dimensions=dimensions,
        layout=message("LayoutProto", minor_to_major=order),
    )
    count = 1
    for size in dimensions:
        count *= size
    if field == "preds":
        values = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    elif field in INTEGERS:
        bits = INTEGERS[field]
        low = 0 if field.startswith("u") else -(1 << (bits - 1))
        numbers = st.integers(low, low + (1 << bits) - 1)
        values = draw(st.lists(numbers, min_size=count, max_size=count))
    else:
        digits = name.lstrip("abcdefghijklmnopqrstuvwxyz").split("e")[0].split("f")[0]
        size = SIZES.get(name, max(int(digits or 8) // 8, 1))
        values = draw(st.binary(min_size=count * size, max_size=count * size))
        bits = {"s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4}.get(name)
        bits = bits or {"f6e3m2fn": 6, "f6e2m3fn": 6}.get(name)
        if bits:  # XLA keeps smaller numbers in a byte of their own, sign-extended
            half = 1 << (bits - 1)
            signed = name.startswith("s")
            cut = [byte & ((1 << bits) - 1) for byte in values]
            values = bytes([(n - 2 * half) & 0xFF if signed and n & half else n for n in cut])
    return message("LiteralProto", shape=shape, **{field: values})


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(literals())
def test_any_literal_is_printed_as_xla_prints_it(literal):
    from jaxlib import _hlo

    shape = literal.shape
    made = module(
        row(1, "constant", literal=literal, shape=shape),
        host_program_shape=message("ProgramShapeProto", result=shape.SerializeToString()),
    ).SerializeToString()
    theirs = printed(_hlo.HloModule.from_serialized_hlo_module_proto(made))
    assert read_proto(made).payloads[0] == read_module(theirs).payloads[0]


ANY_TEXT = st.text(st.sampled_from("ab{}[]\"'\\/*,=: \n\té%-1"), max_size=12)


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_string_is_printed_as_xla_prints_it(config, target, attribute, op_name):
    from jaxlib import _hlo

    entry = message("FrontendAttributes_MapEntry", key=b"k", value=attribute.encode())
    made = module(
        row(
            1,
            "custom-call",
            backend_config=config.encode(),
            custom_call_target=target.encode(),
            custom_call_api_version=1,
            frontend_attributes=message("FrontendAttributes", map=[entry]),
            metadata=message("OpMetadata", op_name=op_name.encode()),
        ),
        host_program_shape=message("ProgramShapeProto", result=scalar().SerializeToString()),
    ).SerializeToString()
    theirs = printed(_hlo.HloModule.from_serialized_hlo_module_proto(made))
    assert read_proto(made).attributes[0].text in theirs


def test_stacks_are_those_of_the_protobuf():
    """In its text XLA adds one to the number of a parent frame."""
    text = (FIXTURES / "dialects" / "stack_frames.hlo").read_text()
    proto, theirs = proto_and_text(text)
    expected = ["model.py", 'train "final".py']
    for read in (read_proto(proto), read_module(theirs), read_module(text)):
        metadata = read.metadata(read.entry_computation.root)
        assert metadata
        assert [frame.file for frame in metadata.frames] == expected
        assert read_module(print_module(read)).metadata(1) == metadata


def test_parameters_and_shapes_of_the_entry_come_from_the_program_shape():
    text = "HloModule m\n\nENTRY e {\n  p = f32[<=3,4]{0,1:T(2,128)(2,1)S(1)} parameter(0)\n}\n"
    proto, theirs = proto_and_text(text)
    assert read_proto(proto).header == read_module(theirs).header
