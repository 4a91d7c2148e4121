"""Collectives of a module: groups in all spellings, order, loops, branches, what counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.collectives.groups import Grid, Numbering, grid_of, members, read_groups
from xlagraph.collectives.program import Branch, Collective, Loop, Unread, program_of
from xlagraph.hlo import load, read_module
from xlagraph.hlo.printer import SHORT, print_module

DIALECTS = Path(__file__).resolve().parents[2] / "fixtures" / "dialects"
ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
"""


def read(body, head="replica_count=4", more=""):
    return read_module(f"HloModule m, {head}\n{ADD}{more}\nENTRY main {{\n{body}\n}}\n")


def reduce(name, operand, extra="replica_groups={{0,1,2,3}}", shape="f32[4]"):
    return f"  {name} = {shape} all-reduce({operand}), {extra}, to_apply=add\n"


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", ()),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0, 1}, {2, 3}}", ((0, 1), (2, 3))),
        ("{{1,0}}", ((1, 0),)),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("[1,8]<=[8]", (tuple(range(8)),)),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=2] {'b'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("@mesh<a=2,b=2> {a,b}", ((0, 1, 2, 3),)),
        ("mesh['a'=4] {'a':(1)2}", None),
        ("[2,2]<=[3]", None),
        ("{{0,99999999999999999999}}", None),
        ("[2,999999999]<=[1999999998]", None),
    ],
)
def test_groups_in_all_spellings(text, groups):
    assert read_groups(text) == groups


@pytest.mark.parametrize(
    ("counted", "groups", "device", "found"),
    [
        # Two replicas of two partitions: devices 0 and 1 are replica 0, 2 and 3 replica 1.
        (Numbering.REPLICAS, ((0, 1),), 1, (1, 3)),
        (Numbering.REPLICAS, ((1, 0),), 1, (3, 1)),
        (Numbering.REPLICAS, ((0,), (1,)), 3, (3,)),
        (Numbering.PARTITIONS, ((0, 1),), 3, (2, 3)),
        (Numbering.WHOLE_REPLICAS, ((0, 1),), 3, (0, 1, 2, 3)),
        (Numbering.WHOLE_REPLICAS, ((0,), (1,)), 3, (2, 3)),
        (Numbering.DEVICES, ((0, 3), (1, 2)), 3, (0, 3)),
        (Numbering.DEVICES, (), 3, (0, 1, 2, 3)),
        (Numbering.DEVICES, ((0, 1),), 3, None),
    ],
)
def test_what_the_numbers_of_a_group_count(counted, groups, device, found):
    assert members(groups, counted, Grid(2, 2), device) == found


@pytest.mark.parametrize(
    ("extra", "counted"),
    [
        ("replica_groups={}", Numbering.REPLICAS),
        ("channel_id=1, replica_groups={{0,1}}", Numbering.WHOLE_REPLICAS),
        ("channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true", Numbering.DEVICES),
    ],
)
def test_a_channel_changes_what_groups_count(extra, counted):
    module = read("  p = f32[4] parameter(0)\n" + "ROOT" + reduce(" a", "p", extra))
    (item,) = program_of(module).items
    assert item.counted is counted


def test_each_spelling_that_the_dialects_have():
    found = program_of(load(str(DIALECTS / "replica_groups.hlo"))).items
    assert [item.groups for item in found if item.opcode == "all-reduce"] == [
        (),
        ((0, 1), (2, 3)),
        ((0, 1), (2, 3)),
        ((0, 2), (1, 3)),
    ]
    assert found[-1].pairs == ((0, 1), (1, 2), (2, 3), (3, 0))
    (mesh,) = program_of(load(str(DIALECTS / "mesh_replica_groups.hlo"))).items
    assert mesh.groups == ((0, 1), (2, 3))
    (started,) = program_of(load(str(DIALECTS / "async_collectives.hlo"))).items
    assert (started.opcode, started.is_async) == ("all-gather", True)


def test_a_chain_is_ordered_and_two_that_nothing_ties_are_not():
    chain = read("  p = f32[4] parameter(0)\n" + reduce("a", "p") + "ROOT" + reduce(" b", "a"))
    assert program_of(chain).ordered
    both = "  p = f32[4] parameter(0)\n  n = f32[4] negate(p)\n" + reduce("a", "p")
    both += reduce("b", "n") + "  ROOT t = (f32[4], f32[4]) tuple(a, b)"
    assert not program_of(read(both)).ordered
    assert program_of(read(both, "is_scheduled=true, replica_count=4")).ordered
    tied = both.replace("all-reduce(n)", "all-reduce(n), control-predecessors={a}")
    assert program_of(read(tied)).ordered


def test_what_nobody_uses_does_not_run():
    dead = "  ROOT p = f32[4] parameter(0)\n" + reduce("a", "p")
    assert not program_of(read(dead)).items
    acting = dead.replace("replica_groups", "channel_id=3, replica_groups")
    assert len(program_of(read(acting)).items) == 1


def test_what_xla_may_take_away():
    twice = "  p = f32[4] parameter(0)\n" + reduce("a", "p") + reduce("b", "p")
    twice += "  c = f32[4] constant({1, 2, 3, 4})\n" + reduce("d", "c")
    twice += "  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, d)"
    assert [item.removable for item in program_of(read(twice)).items] == [False, True, True]
    compiled = program_of(read(twice, "is_scheduled=true, replica_count=4"))
    assert not any(item.removable for item in compiled.items)


def counted_loop(start="0", end="5", step="1", direction="LT", body=None):
    body = reduce("r", "x") if body is None else body
    more = f"""
condition {{
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({end})
  ROOT c = pred[] compare(i, n), direction={direction}
}}

body {{
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  one = s32[] constant({step})
  next = s32[] add(i, one)
{body}  ROOT t = (s32[], f32[4]) tuple(next, r)
}}
"""
    entry = f"""  v = f32[4] parameter(0)
  zero = s32[] constant({start})
  t = (s32[], f32[4]) tuple(zero, v)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT o = f32[4] get-tuple-element(w), index=1"""
    return read(entry, more=more)


@pytest.mark.parametrize(
    ("given", "trips"),
    [
        ({}, 5),
        ({"start": "2"}, 3),
        ({"step": "2"}, 3),
        ({"direction": "LE"}, 6),
        ({"start": "9", "end": "4", "step": "-1", "direction": "GT"}, 5),
        ({"end": "0"}, 0),
    ],
)
def test_loops_that_count_are_written_out(given, trips):
    program = program_of(counted_loop(**given))
    assert len(program.items) == trips
    assert all(isinstance(item, Collective) for item in program.items)


def test_a_loop_until_something_holds_stays_a_loop():
    (item,) = program_of(counted_loop(direction="NE")).items
    assert isinstance(item, Loop)
    assert len(item.body) == 1


def test_what_xla_worked_out_about_a_loop_counts():
    text = print_module(counted_loop(direction="NE"))
    config = 'backend_config={"known_trip_count":{"n":"7"}}'
    assert "body=body" in text
    module = read_module(text.replace("body=body", f"body=body, {config}"))
    assert len(program_of(module).items) == 7


def branches(second):
    more = f"""
one {{
  p = f32[4] parameter(0)
{reduce("r", "p")}  ROOT n = f32[4] negate(r)
}}

two {{
  p = f32[4] parameter(0)
{second}  ROOT n = f32[4] copy(r)
}}
"""
    entry = """  v = f32[4] parameter(0)
  c = pred[] parameter(1)
  ROOT o = f32[4] conditional(c, v, v), true_computation=one, false_computation=two"""
    return program_of(read(entry, more=more)).items


def test_branches_with_equal_collectives_are_no_question():
    (item,) = branches(reduce("r", "p"))
    assert isinstance(item, Collective)
    (item,) = branches("  r = f32[4] negate(p)\n")
    assert isinstance(item, Branch)


def test_a_module_of_one_device_that_names_eight_is_one_of_eight_ranks():
    module = read(
        "  p = f32[4] parameter(0)\nROOT" + reduce(" a", "p", "replica_groups={{0,7}}"),
        "is_scheduled=true",
    )
    assert grid_of(module) == Grid(1, 1)
    assert program_of(module).among(8).grid == Grid(8, 1)
    assert program_of(module).grid == Grid(8, 1)


def test_what_waits_in_another_way_is_named():
    body = """  p = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(p), custom_call_target="mpi", custom_call_has_side_effect=true"""
    (item,) = program_of(read(body)).items
    assert item == Unread("mpi", item.instruction)


def test_a_module_for_the_partitioner_has_collectives_that_nobody_sees_yet():
    body = """  p = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT d = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    program = program_of(read(body, "num_partitions=4"))
    assert (program.grid, program.partitioned_later) == (Grid(1, 4), True)
    assert not program_of(read(body, "is_scheduled=true, num_partitions=4")).partitioned_later
    assert program_of(read(body, "replica_count=1")).partitioned_later


HOSTILE = {
    "a comparison of one": ("compare(v1, v2)", "compare(v1)"),
    "a comparison of three": ("compare(v1, v2)", "compare(v1, v2, v2)"),
    "a sum of one": ("add(v1, v3)", "add(v1)"),
    "a sum of none": ("add(v1, v3)", "add()"),
    "a bound that no loop reaches": ("constant(5)", "constant(99999999999999999999999)"),
    "a loop over nothing": ("while(v2)", "while()"),
    "a loop without a body": (", body=comp2", ""),
    "a loop without a condition": ("condition=comp1, ", ""),
    "a body for a condition": ("condition=comp1, body=comp2", "condition=comp2, body=comp1"),
}


@pytest.mark.parametrize("edit", HOSTILE.values(), ids=HOSTILE)
def test_what_no_front_end_writes_is_read_all_the_same(edit):
    text = print_module(counted_loop(), SHORT)
    assert edit[0] in text
    program = program_of(read_module(text.replace(*edit)))
    assert len(program.items) <= 1
