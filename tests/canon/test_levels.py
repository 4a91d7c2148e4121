"""The digests of all levels on real graphs whose difference is known."""

from __future__ import annotations

import pytest
from real_modules import graph

from xlagraph.canon.form import canonical_lines, digest, level_digests
from xlagraph.canon.labels import Level
from xlagraph.diff.same import same_computation
from xlagraph.hlo import read_module


def first_agreement(a: str, b: str) -> Level | None:
    """The strictest level on which two graphs agree."""
    for first, second in zip(level_digests(graph(a)), level_digests(graph(b)), strict=True):
        if first.digest == second.digest:
            return first.level
    return None


@pytest.mark.parametrize(
    ("a", "b", "level"),
    [
        ("carry:D", "carry:F", Level.OUTPUT_ORDER),  # the same graph, 24 outputs moved
        ("carry:A", "fixed:A", Level.NAMES),  # the same setup in both runs
        ("carry:E", "carry:G", None),  # another bucket composition
        ("fixed:D", "fixed:E", None),  # momentum buffers
        ("carry:A", "carry:B", None),
    ],
)
def test_the_first_agreement_names_the_difference(a: str, b: str, level: Level | None) -> None:
    assert first_agreement(a, b) == level


TEXT = """HloModule m

ENTRY main {
  p = f32[4]{0} parameter(0)
  c = f32[] constant(%s)
  b = f32[4]{0} broadcast(c), dimensions={}
  a = f32[4]{0} add(p, b)
  ROOT r = (f32[4]{0}) tuple(a)
}
"""


def test_values_and_shapes_have_rungs_of_their_own() -> None:
    two, three = read_module(TEXT % "2"), read_module(TEXT % "3")
    wide = read_module((TEXT % "2").replace("f32[4]", "f32[8]"))
    assert digest(two, Level.OUTPUT_ORDER) != digest(three, Level.OUTPUT_ORDER)
    assert digest(two, Level.CONSTANT_VALUES) == digest(three, Level.CONSTANT_VALUES)
    assert digest(two, Level.CONSTANT_VALUES) != digest(wide, Level.CONSTANT_VALUES)
    assert digest(two, Level.SHAPES) == digest(wide, Level.SHAPES)


def test_the_canonical_text_is_hlo_with_plain_numbers() -> None:
    assert list(canonical_lines(read_module(TEXT % "2"), Level.PARAMETER_ORDER)) == [
        "HloModule",
        "ENTRY {",
        "  %0 = f32[4]{0} parameter(0)",
        "  %1 = f32[] constant(2)",
        "  %2 = f32[4]{0} broadcast(%1), dimensions={}",
        "  %3 = f32[4]{0} add(%0, %2)",
        "  ROOT %4 = (f32[4]{0}) tuple(%3)",
        "}",
    ]


def test_header_fields_count_while_positions_do() -> None:
    plain = read_module(TEXT % "2")
    donated = read_module((TEXT % "2").replace("m\n", "m, buffer_donor={ (0, {}) }\n", 1))
    assert digest(plain, Level.DUPLICATE_CONSTANTS) != digest(donated, Level.DUPLICATE_CONSTANTS)


def test_channel_numbers_and_metadata_do_not_count() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[4]{0} parameter(0)
  a = f32[8]{0} all-gather(p), dimensions={0}, replica_groups={{0,1}}, %s
  b = f32[4]{0} collective-permute(p), source_target_pairs={{0,1}}, %s
  ROOT r = (f32[8]{0}, f32[4]{0}) tuple(a, b)
}
"""
    one = read_module(text % ('channel_id=3, metadata={op_name="x"}', "channel_id=4"))
    other = read_module(text % ('channel_id=9, metadata={op_name="y"}', "channel_id=1"))
    shared = read_module(text % ("channel_id=3", "channel_id=3"))
    assert digest(one, Level.NAMES) == digest(other, Level.NAMES)
    assert digest(one, Level.NAMES) != digest(shared, Level.NAMES)
    assert same_computation(one, other)
    assert not same_computation(one, shared)


def test_an_entry_that_is_called_by_others_has_digests() -> None:
    text = """HloModule m
ENTRY a {
  p = f32[] parameter(0)
  ROOT n = f32[] %s(p)
}
b {
  q = f32[] parameter(0)
  ROOT c = f32[] call(q), to_apply=a
}
"""
    one, other = (level_digests(read_module(text % opcode)) for opcode in ("negate", "abs"))
    assert len(one) == len(other) == len(Level) - 1
    assert not {level.digest for level in one} & {level.digest for level in other}
