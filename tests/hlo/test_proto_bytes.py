"""Bytes that are cut off, damaged, hostile, or newer than the table."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proto_helpers import PROTOS, canonical, field, message, module, row, scalar, with_unknown

from xlagraph.diff.changes import diff_modules
from xlagraph.errors import BytesError, XlagraphError
from xlagraph.hlo.proto import reader, wire
from xlagraph.hlo.proto.reader import read_proto
from xlagraph.hlo.proto.wire import looks_like_module
from xlagraph.hlo.verify import verify

SMALL = gzip.decompress(
    next((PROTOS / "jax_loop").glob("*before_optimizations.hlo.pb.gz")).read_bytes()
)


def refused(data: bytes) -> str:
    with pytest.raises(BytesError) as caught:
        read_proto(data, "made.pb")
    assert str(caught.value).startswith("made.pb: byte ")
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- ids and order ---------------------------------------------------------------------------


def test_ids_need_not_be_in_order_nor_small():
    high = 7 << 32
    made = module(
        row(high + 9, "parameter", name="p"),
        row(high + 2, "negate", (high + 9,), name="n"),
        row(high + 5, "add", (high + 2, high + 9), name="s"),
    )
    read = read_proto(made.SerializeToString())
    assert list(read.names) == ["p", "n", "s"]
    assert list(read.operands) == [(), (0,), (1, 0)]


def test_references_may_lack_the_upper_half_of_an_id():
    high = 7 << 32
    made = module(
        row(high + 1, "parameter"),
        row(high + 2, "negate", (1,)),
        row(high + 3, "abs", (2,), control_predecessor_ids=[1]),
        root=3,
    )
    read = read_proto(made.SerializeToString())
    assert list(read.operands) == [(), (0,), (1,)]
    assert read.controls == {2: (0,)}
    assert read.entry_computation.root == 2


def test_operands_behind_their_users_are_brought_before_them():
    made = module(
        row(3, "add", (2, 1), name="s", control_predecessor_ids=[4]),
        row(4, "abs", (1,), name="a"),
        row(2, "negate", (1,), name="n"),
        row(1, "parameter", name="p"),
        root=3,
    )
    read = read_proto(made.SerializeToString())
    verify(read)
    assert list(read.names) == ["p", "n", "a", "s"]
    assert read.names[read.entry_computation.root] == "s"
    assert read.controls == {3: (2,)}


def test_a_schedule_gives_the_order():
    sequence = message("HloScheduleProto_InstructionSequence", instruction_ids=[1, 3, 2, 4])
    entry = message("HloScheduleProto_SequencesEntry", key=1, value=sequence)
    made = module(
        row(1, "parameter", name="p"),
        row(2, "negate", (1,), name="n"),
        row(3, "abs", (1,), name="a"),
        row(4, "add", (2, 3), name="s"),
        schedule=message("HloScheduleProto", sequences=[entry]),
    )
    read = read_proto(made.SerializeToString())
    assert list(read.names) == ["p", "a", "n", "s"]
    assert read.header_fields["is_scheduled"] == "true"


def test_callees_behind_their_caller_are_brought_before_it():
    made = module(row(1, "parameter"), row(2, "call", (1,), called_computation_ids=[8]))
    callee = message("HloComputationProto", name="callee", id=8, root_id=1)
    callee.instructions.append(row(1, "parameter"))
    made.computations.append(callee)
    read = read_proto(made.SerializeToString())
    assert [c.name for c in read.computations] == ["callee", "main"]
    assert read.entry == 1
    assert read.callees == {2: (0,)}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1, "negate", (2,)), row(2, "abs", (1,))], "needs itself"),
        ([row(1, "negate", (9,))], "needs instruction 9, which is missing"),
        ([row(1, "parameter"), row(1, "constant", name="c")], "share an id"),
        ([row(1, "parameter"), row(2, "negate", (1,), name="parameter.1")], "name of their own"),
        ([row(1, "call", called_computation_ids=[1])], "calls itself"),
        ([row(1, "call", called_computation_ids=[5])], "calls computation 5, which is missing"),
        ([row(1, "parameter", parameter_number=1)], "not numbered 0, 1, 2"),
        ([row(1, "parameter"), row(2, "parameter")], "has two parameters 0"),
        ([row(1, "parameter"), row(2, "get-tuple-element", (1,))], "to take a part of"),
        (
            [
                row(1, "tuple", shape=message("ShapeProto", element_type=13)),
                row(2, "get-tuple-element", (1,), tuple_index=3, name="part"),
            ],
            "'part' takes part 3: expected",
        ),
        ([row(1, "")], "without an opcode"),
        ([row(1, "parameter", name="")], "without a name"),
    ],
)
def test_modules_that_are_not_sound(rows, expected):
    assert expected in refused(module(*rows).SerializeToString())


def test_a_missing_root_is_named():
    made = module(row(1, "parameter"), root=12)
    assert "the root of 'main', 12, is missing" in refused(made.SerializeToString())


def test_a_module_without_computations_is_refused():
    assert "no computation in it" in refused(
        message("HloModuleProto", name="m").SerializeToString()
    )


# --- what nobody knows -----------------------------------------------------------------------


def of_instruction(data: bytes) -> bytes:
    """A module of one instruction, encoded."""
    body = field(1, b"main") + b"\x28\x01\x30\x01" + field(2, data)
    return field(1, b"made") + b"\x30\x01" + field(3, body)


def same(a: bytes, b: bytes) -> bool:
    return diff_modules(read_proto(a), read_proto(b)).same


@pytest.mark.parametrize("number", [101, 250])
def test_an_unknown_field_of_an_instruction_is_never_the_same(number):
    plain = row(1, "parameter")
    known = of_instruction(plain.SerializeToString())
    newer = of_instruction(with_unknown(plain, number))
    assert not same(known, newer)
    assert same(newer, newer)
    assert not same(newer, of_instruction(with_unknown(plain, number, b"y")))
    assert f"field.{number}=0x78" in read_proto(newer).attributes[0].text


def test_an_unknown_field_within_a_message_of_an_instruction_is_kept():
    sharding = message("OpSharding", type=0)
    shaped = row(1, "parameter", sharding=sharding)
    data = shaped.SerializeToString()
    newer = data.replace(
        field(40, sharding.SerializeToString()), field(40, with_unknown(sharding, 60))
    )
    assert newer != data
    read = read_proto(of_instruction(newer))
    assert read.attributes[0].get("field.sharding.60") == "0x78"
    assert not same(of_instruction(data), of_instruction(newer))


@pytest.mark.parametrize("where", ["shape", "layout"])
def test_an_unknown_field_of_a_shape_is_part_of_the_shape(where):
    shape = scalar(11, (4,))
    plain = row(1, "parameter", shape=shape)
    if where == "layout":
        newer = message("ShapeProto", element_type=11, dimensions=[4]).SerializeToString()
        newer += field(5, with_unknown(shape.layout, 40))
    else:
        newer = with_unknown(shape, 40)
    fresh = plain.SerializeToString().replace(field(3, shape.SerializeToString()), field(3, newer))
    read = read_proto(of_instruction(fresh))
    verify(read)
    assert "=0x78" in read.shapes[0]
    assert read.shapes[0].startswith("f32[4]{0:")
    assert not same(of_instruction(plain.SerializeToString()), of_instruction(fresh))


def test_an_unknown_field_of_the_module_is_a_header_field():
    made = module(row(1, "parameter"))
    read = read_proto(with_unknown(made, 77))
    assert read.header_fields["field.77"] == "0x78"
    assert not same(made.SerializeToString(), with_unknown(made, 77))


def test_what_is_set_aside_makes_no_difference():
    made = module(row(1, "parameter"))
    numbered = made.SerializeToString() + b"\x28\x05"  # HloModuleProto.id
    assert same(made.SerializeToString(), numbered)
    noted = of_instruction(with_unknown(row(1, "parameter"), 88))  # original_value
    assert same(of_instruction(row(1, "parameter").SerializeToString()), noted)


def test_types_opcodes_and_enums_newer_than_the_table_are_kept():
    made = module(
        row(1, "parameter", shape=scalar(77, (2,))),
        row(
            2,
            "hyper-reduce",
            (1,),
            dimensions=[3],
            precision_config=message("PrecisionConfig", operand_precision=[1]),
        ),
        row(3, "rng-bit-generator", (2,), rng_algorithm=9),
        row(4, "constant", literal=message("LiteralProto", shape=scalar(77))),
    )
    read = read_proto(made.SerializeToString())
    verify(read)
    assert read.shapes[0] == "type77[2]{0}"
    assert dict(read.attributes[1].items)["dimensions"] == "{3}"
    assert "operand_precision: 1" in (read.attributes[1].get("precision_config") or "")
    assert read.attributes[2].get("algorithm") == "9"
    assert read.payloads[3] == "{...}"


def test_a_field_that_an_opcode_does_not_have_is_not_lost():
    plain = module(row(1, "parameter"), row(2, "negate", (1,)))
    more = module(row(1, "parameter"), row(2, "negate", (1,), delta=4))
    assert read_proto(more.SerializeToString()).attributes[1].get("delta") == "4"
    assert not same(plain.SerializeToString(), more.SerializeToString())


def test_configs_in_the_list_of_the_module_are_those_of_the_instructions():
    payload = message("Payload", id=1)
    made = module(
        row(1, "custom-call", backend_config_payload=payload, custom_call_api_version=1),
        payloads=[b"zero", b'{"one":1}'],
    )
    config = read_proto(made.SerializeToString()).attributes[0].get("backend_config")
    assert config == '{"one":1}'


def test_what_is_remembered_of_one_module_says_nothing_of_anothers_payloads():
    payload = message("Payload", id=1)
    call = row(1, "custom-call", backend_config_payload=payload, custom_call_api_version=1)
    found = [
        read_proto(module(call, payloads=[b"zero", one]).SerializeToString()).attributes[0]
        for one in (b'{"one":1}', b'{"two":2}')
    ]
    assert [one.get("backend_config") for one in found] == ['{"one":1}', '{"two":2}']
    bare = read_proto(module(call).SerializeToString()).attributes[0]
    assert bare.get("backend_config_payload") == "{id=1}"


def test_little_is_remembered_and_a_module_reads_the_same_again(monkeypatch):
    first = read_proto(SMALL)
    assert reader._Known.shared.rows
    again = read_proto(SMALL)
    assert repr((again.names, again.shapes, again.operands, again.attributes)) == repr(
        (first.names, first.shapes, first.operands, first.attributes)
    )
    monkeypatch.setattr(reader, "_REMEMBERED", 0)
    read_proto(SMALL)
    assert not reader._Known.shared.rows


# --- damage ----------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_anywhere_is_refused_with_its_place():
    for stop in range(2, len(SMALL), max(len(SMALL) // 200, 1)):
        assert "cut off" in refused(SMALL[:stop]) or "no computation in it" in refused(SMALL[:stop])
        assert looks_like_module(SMALL[:stop]) in (None, "jit__lambda")


def test_other_messages_are_refused_by_what_was_expected():
    other = message("OpSharding", tuple_shardings=[message("OpSharding", type=4)])
    assert "no computation in it" in refused(with_unknown(other, 60))
    snapshot = field(1, field(1, field(1, field(1, b"m"))))
    for data in (b"", snapshot, b"\x08\x07"):
        assert "expected an HloProto, HloModuleProto or HloSnapshot" in refused(data)
    assert looks_like_module(b"") is None


def test_a_damaged_shape_in_the_header_is_refused():
    host = message("ProgramShapeProto", result=b"\xff")
    made = module(row(1, "parameter"), host_program_shape=host)
    assert "the module's header cannot be read" in refused(made.SerializeToString())


@pytest.mark.parametrize("size", [-3, 10**18])
def test_a_dimension_that_no_text_has_is_refused(size):
    made = module(row(1, "parameter", shape=scalar(dimensions=(size,))))
    assert f"no shape: f32[{size}]" in refused(made.SerializeToString())


def test_a_second_module_is_refused():
    one = field(1, module(row(1, "parameter")).SerializeToString())
    assert "a second module" in refused(one + one)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\n\xff\xff\xff\xff\xff\xff\xff\xff\x7fm", "cut off: field 1 reaches to byte"),
        (b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than ten bytes"),
        (b"\n\x01m\x1b", "wire type 3"),
        (b"\n\x01m\x00\x01", "field number 0"),
        (b"\n\x01m\x80", "cut off within a number"),
    ],
)
def test_hostile_lengths_and_tags(data, expected):
    assert expected in refused(data)


def test_a_name_that_is_not_utf8_is_refused():
    data = module(row(1, "parameter", name="n" * 9)).SerializeToString()
    assert "instruction 1 of a computation cannot be parsed" in refused(
        data.replace(b"n" * 9, b"\xff" * 9)
    )


def test_very_many_empty_instructions_are_refused_before_they_are_parsed():
    body = field(1, b"m") + field(2, b"") * 600_000
    assert "has no name" in refused(field(1, b"m") + field(3, body))


def test_shapes_nest_no_deeper_than_in_text():
    shape = scalar().SerializeToString()
    for _ in range(150):
        shape = b"\x10\x0d" + field(4, shape)
    data = field(1, b"p") + field(2, b"parameter") + field(3, shape)
    assert "nested deeper than" in refused(of_instruction(data))


@pytest.mark.parametrize(
    "literal",
    [
        message("LiteralProto", shape=scalar(11, (3,)), f32s=b"\0" * 8),
        message("LiteralProto", shape=scalar(4), s32s=[1, 2]),
        message("LiteralProto", shape=scalar(11, (1 << 40, 1 << 40)), f32s=b"\0" * 8),
        message("LiteralProto", shape=message("ShapeProto", element_type=13, tuple_shapes=[b""])),
        message("LiteralProto", shape=scalar(11, (-1,)), f32s=b"\0" * 4),
        message("LiteralProto", shape=scalar(4, (2,)), s32s=[1, 2], dynamic_sizes=[3]),
    ],
)
def test_a_literal_that_does_not_fit_its_shape_is_refused(literal):
    made = module(row(1, "constant", literal=literal)).SerializeToString()
    assert "literal" in refused(made)


def test_a_literal_of_many_empty_rows_is_not_written_out():
    literal = message("LiteralProto", shape=scalar(11, (1 << 40, 0)))
    read = read_proto(module(row(1, "constant", literal=literal)).SerializeToString())
    assert read.payloads[0] == "{...}"


def test_a_module_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(wire, "MAX_MODULE", 1000)
    assert "at most 1000 can be read" in refused(SMALL)


def outcome(data: bytes) -> None:
    """Either a sound module, or the project's own error."""
    try:
        read = read_proto(data)
        canonical(read)
    except XlagraphError as error:
        str(error)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SMALL) - 1), st.binary(max_size=3), st.integers(0, 4)),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_bytes_never_crash(edits):
    data = bytearray(SMALL)
    for at, inserted, removed in edits:
        data[at : at + removed] = inserted
    outcome(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_never_crash(data):
    outcome(data)
    outcome(field(1, b"m") + field(3, data))
    looks_like_module(data)
