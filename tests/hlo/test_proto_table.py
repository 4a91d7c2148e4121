"""The table of fields beside XLA's own definitions, as the installed libraries have them."""

from __future__ import annotations

import pytest
from proto_helpers import LIBRARIES, xla_definitions

from xlagraph.hlo.proto import kinds, shapes, sharding, writers
from xlagraph.hlo.proto.fields import SET_ASIDE
from xlagraph.hlo.proto.schema import TABLE

SCALARS = {
    1: {"double"},
    2: {"float"},
    3: {"int64"},
    4: {"uint64"},
    5: {"int32"},
    8: {"bool"},
    9: {"string", "bytes"},
    12: {"bytes"},
    13: {"uint32"},
    14: {"int32"},
}
"""Types of the table by ``FieldDescriptorProto.Type``; enums are numbers."""
PACKED_FLOATS = {1, 2}
MESSAGE, ENUM, REPEATED = 11, 14, 3


def definitions(library: str):
    found = xla_definitions(library)
    if not found:
        pytest.skip(f"{library} is not installed")
    return found


def reachable(found):
    """The messages of the table; what they hold is in it or set aside, as a test makes sure."""
    return {name: found[name] for name in TABLE if name in found}


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_field_is_read_or_set_aside_for_a_reason(library):
    found = definitions(library)
    missing = [
        f"{name}.{field.name} = {field.number}"
        for name, message in reachable(found).items()
        for field in message.field
        if field.number not in TABLE[name] and field.number not in SET_ASIDE.get(name, {})
    ]
    assert not missing, f"add to fields.MESSAGES, or to SET_ASIDE with a reason: {missing}"
    assert len(reachable(found)) > 45, "the definitions were found and compared"


@pytest.mark.parametrize("library", LIBRARIES)
def test_fields_have_the_names_and_types_of_the_public_definition(library):
    found = definitions(library)
    for name, message in reachable(found).items():
        for field in message.field:
            ours = TABLE[name].get(field.number)
            if ours is None:
                assert SET_ASIDE[name][field.number][0] == field.name
                continue
            where = f"{name}.{field.name}"
            assert ours.name == field.name, where
            if field.type == MESSAGE:
                expected = {field.type_name.removeprefix(".xla.").replace(".", "_"), "bytes"}
            elif field.label == REPEATED and field.type in PACKED_FLOATS and ours.kind == "bytes":
                assert not ours.label, where
                continue
            else:
                expected = SCALARS[field.type]
            assert ours.kind in expected, where
            assert (ours.label == "*") == (field.label == REPEATED), where
            if ours.label == "?":
                assert field.HasField("oneof_index"), where


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_message_that_is_read_is_in_the_table(library):
    found = definitions(library)
    for name, fields in TABLE.items():
        for field in fields.values():
            if field.kind[0].isupper():
                assert field.kind in TABLE, f"{name}.{field.name}"
    assert {"HloModuleProto", "HloInstructionProto", "ShapeProto"} <= reachable(found).keys()


def test_what_is_set_aside_is_not_read_too_and_has_a_reason():
    for name, fields in SET_ASIDE.items():
        for number, (field, reason) in fields.items():
            assert number not in TABLE[name], field
            assert len(reason) > 10, field


ENUMS = {
    "PrimitiveType": (shapes.ELEMENT_TYPES, lambda name: SPECIAL_TYPES.get(name, name.lower())),
    "FftType": (writers.FFT, str),
    "RandomDistribution": (writers.DISTRIBUTIONS, str.lower),
    "RandomAlgorithm": (writers.ALGORITHMS, str.lower),
    "TriangularSolveOptions_Transpose": (writers.TRANSPOSES, str),
    "PaddingType": (writers.PADDINGS, str),
    "CustomCallSchedule": (writers.SCHEDULES, str),
    "CustomCallApiVersion": (writers.VERSIONS, str),
    "PrecisionConfig_Precision": (writers.PRECISIONS, str.lower),
    "PrecisionConfig_Algorithm": (
        writers.DOT_ALGORITHMS,
        lambda name: name.removeprefix("ALG_").lower(),
    ),
    "ConvolutionKind": (
        writers.CONVOLUTIONS,
        lambda name: name.removeprefix("CONVOLUTION_KIND_").lower(),
    ),
    "ResultAccuracy_Mode": (kinds.MODES, str.lower),
    "OpSharding_Type": (sharding.TYPES, str.lower),
}
"""The names that are printed, and how they come from the public names."""
SPECIAL_TYPES = {"PRIMITIVE_TYPE_INVALID": "invalid", "OPAQUE_TYPE": "opaque"}
NOT_PRINTED = {
    "TRANSPOSE_INVALID",
    "PADDING_INVALID",
    "SCHEDULE_NONE",
    "API_VERSION_ORIGINAL",
    "ALG_UNSET",
    "CONVOLUTION_KIND_UNSET",
    "DEFAULT",
    "TUPLE",
    "OTHER",
}
"""Values that stand for nothing, or for what is printed another way."""


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ENUMS)
def test_every_value_of_an_enum_is_printed_by_its_name(library, name):
    found = definitions(library)
    if name not in found:
        pytest.skip(f"{library} is older than {name}")
    names, printed = ENUMS[name]
    for value in found[name].value:
        if value.number in names or value.name not in NOT_PRINTED:
            assert names.get(value.number) == printed(value.name), value.name
