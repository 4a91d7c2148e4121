"""Matching collectives against brute force: every order in which devices could move."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlagraph.collectives.groups import Grid, Numbering
from xlagraph.collectives.program import Collective, Loop, Program, Unread
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Doubt, Executed, Outcome, Plan, Reason

WORLD = 3
GROUPS = ((), ((0, 1), (2,)), ((0,), (1, 2)), ((0, 2), (1,)), ((1, 0), (2,)))


def collective(groups=(), size=4, opcode="all-reduce", at=0, **fields):
    given = {
        "buffers": (("f32", size),),
        "reduction": "add",
        "counted": Numbering.REPLICAS,
        "pairs": (),
        "channel": "",
        "instruction": at,
        "is_async": False,
        "removable": False,
    }
    return Collective(opcode=opcode, groups=groups, **(given | fields))


def matched(modules, *, world=WORLD, ended=True, ordered=True):
    """What becomes of ranks that each run the modules (lists of items) listed for them."""
    programs, plans = {}, []
    for rank, rows in enumerate(modules):
        executed = []
        for step, items in enumerate(rows):
            digest = repr(items)
            programs[digest] = Program(tuple(items), Grid(world, 1), ordered, False)
            executed.append(Executed(step, digest))
        plans.append(Plan(rank, tuple(executed), ended))
    return match(plans, programs, world)


def ends(modules):
    """Every way in which a system of blocking collectives can end, by trying all moves.

    Each is ``done``, ``stuck`` or ``conflict``.
    """
    flat = [[item for row in rows for item in row] for rows in modules]
    alone = [[one for one in row if len(_members(one, k)) > 1] for k, row in enumerate(flat)]

    @cache
    def reached(places):
        heads = [row[at] if at < len(row) else None for row, at in zip(alone, places, strict=True)]
        found = set()
        for rank, head in enumerate(heads):
            if head is None:
                continue
            group = _members(head, rank)
            there = [heads[one] and _members(heads[one], one) == group for one in group]
            if not all(there):
                continue
            if len({(heads[one].opcode, heads[one].buffers) for one in group}) > 1:
                found.add("conflict")
                continue
            found |= reached(tuple(at + (k in group) for k, at in enumerate(places)))
        if not found:
            return frozenset({"done" if not any(heads) else "stuck"})
        return frozenset(found)

    return reached((0,) * len(alone))


def _members(item, rank):
    if not item.groups:
        return tuple(range(WORLD))
    return next(group for group in item.groups if rank in group)


items = st.builds(
    collective,
    st.sampled_from(GROUPS),
    st.sampled_from((4, 8)),
    st.sampled_from(("all-reduce", "all-gather")),
)
modules = st.lists(st.lists(st.lists(items, max_size=3), max_size=2), min_size=3, max_size=3)


@st.composite
def nearly_equal(draw):
    """Ranks that run the same, but for what one of them leaves out, adds or turns round."""
    row = draw(st.lists(items, min_size=1, max_size=5))
    ranks = [list(row) for _ in range(WORLD)]
    mine = ranks[draw(st.integers(0, WORLD - 1))]
    at = draw(st.integers(0, len(mine) - 1))
    edit = draw(st.sampled_from(("none", "drop", "swap", "replace")))
    if edit == "drop":
        del mine[at]
    elif edit == "swap" and at:
        mine[at - 1], mine[at] = mine[at], mine[at - 1]
    elif edit == "replace":
        mine[at] = draw(items)
    return [[one] for one in ranks]


@settings(max_examples=400, deadline=None)
@given(st.one_of(modules, nearly_equal()))
def test_no_order_of_moves_ends_otherwise(modules):
    expected = ends(modules)
    found = matched(modules)
    if found.outcome is Outcome.MATCH:
        assert expected == {"done"}
    elif found.outcome is Outcome.HANG:
        assert expected == {"stuck"}
    else:
        assert "conflict" in expected
    assert found.certain
    assert bool(found.waits) == (found.outcome is not Outcome.MATCH)


@settings(max_examples=200, deadline=None)
@given(st.one_of(modules, nearly_equal()))
def test_each_wait_is_for_ranks_that_are_elsewhere(modules):
    found = matched(modules)
    at = {rank: wait for wait in found.waits for rank in wait.ranks}
    for wait in found.waits:
        assert set(wait.missing) <= set(wait.group) - set(wait.ranks)
        assert found.outcome is Outcome.MISMATCH or wait.missing
        for rank in wait.missing:
            assert rank not in at or at[rank].group != wait.group


def test_another_order_over_two_groups_is_a_cycle():
    near, far = collective(((0, 1), (2, 3)), at=1), collective(((0, 2), (1, 3)), at=2)
    found = matched([[[near, far]], [[far, near]], [[far, near]], [[near, far]]], world=4)
    assert (found.outcome, found.reason) == (Outcome.HANG, Reason.CYCLE)
    assert found.certain
    assert {wait.ranks: wait.missing for wait in found.waits} == {
        (0,): (1,),
        (1,): (3,),
        (3,): (2,),
        (2,): (0,),
    }


def test_an_order_that_differs_can_still_be_run():
    near, far = collective(((0, 1), (2, 3))), collective(((0, 2), (1, 3)))
    found = matched([[[near, far]], [[near, far]], [[near, far]], [[far, near]]], world=4)
    assert found.outcome is Outcome.MATCH


def test_a_rank_that_has_ended_is_waited_for():
    one = collective()
    found = matched([[[one], [one]], [[one]], [[one], [one]]])
    assert (found.outcome, found.reason) == (Outcome.HANG, Reason.ENDED)
    (wait,) = found.waits
    assert (wait.ranks, wait.missing, wait.step) == ((0, 2), (1,), 1)
    assert found.certain


def test_records_without_an_end_prove_nothing_missing():
    one = collective()
    found = matched([[[one], [one]], [[one]], [[one], [one]]], ended=False)
    assert found.outcome is Outcome.MATCH
    assert not found.certain
    assert Doubt.UNFINISHED in found.doubts


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (collective(opcode="all-gather"), Reason.OPERATION),
        (collective(size=8), Reason.SIZE),
        (collective(reduction="multiply"), Reason.REDUCTION),
        (collective(buffers=(("s32", 4),)), Reason.ELEMENT_TYPE),
    ],
)
def test_what_does_not_match_is_named(other, reason):
    found = matched([[[collective()]], [[other]], [[collective()]]])
    assert (found.outcome, found.reason) == (Outcome.MISMATCH, reason)
    assert {wait.ranks for wait in found.waits} == {(0, 2), (1,)}


def test_an_order_that_xla_chooses_is_not_certain():
    x, y = collective(size=4), collective(size=8)
    found = matched([[[x, y]], [[y, x]], [[x, y]]], ordered=False)
    assert found.outcome is Outcome.MISMATCH
    assert not found.certain
    assert found.doubts == (Doubt.ORDER,)


def test_unequal_numbers_are_certain_in_any_order():
    x = collective()
    found = matched([[[x, x]], [[x]], [[x, x]]], ordered=False)
    assert found.outcome is Outcome.HANG
    assert found.certain


def test_ranks_that_loop_alike_match_if_they_loop_as_often():
    loop = Loop((collective(),), 3)
    assert matched([[[loop]]] * 3).doubts == (Doubt.LOOP,)
    found = matched([[[loop]], [[loop]], [[collective()]]])
    assert found.outcome is Outcome.UNKNOWN


def test_combined_collectives_go_tensor_by_tensor():
    both = collective(buffers=(("f32", 4), ("f32", 8)))
    found = matched([[[both]], [[collective(size=4), collective(size=8)]], [[both]]])
    assert found.outcome is Outcome.MATCH
    assert found.doubts == (Doubt.COMBINED,)
    found = matched([[[both]], [[collective(size=8), collective(size=4)]], [[both]]])
    assert (found.outcome, found.certain) == (Outcome.MISMATCH, True)


def test_ranks_without_records_are_taken_to_come():
    one = collective()
    found = matched([[[one], [one]], [[one]]], world=3)
    assert found.outcome is Outcome.HANG
    assert found.waits[0].missing == (1,)


def test_a_long_run_is_passed_over_in_step():
    row = [[collective()]] * 20_000
    found = matched([row, row, [*row[:-1], [collective(size=8)]]])
    assert (found.outcome, found.reason) == (Outcome.MISMATCH, Reason.SIZE)
    assert found.matched == 19_999


def test_a_started_collective_that_is_not_yet_waited_for_is_not_certain():
    near = collective(((0, 1), (2, 3)), at=1, is_async=True)
    far = collective(((0, 2), (1, 3)), at=2, is_async=True)
    found = matched([[[near, far]], [[far, near]], [[far, near]], [[near, far]]], world=4)
    assert (found.outcome, found.doubts) == (Outcome.HANG, (Doubt.ASYNC,))
    assert not found.certain


def test_who_only_sends_may_go_on():
    send = collective(opcode="collective-permute", pairs=((0, 1),), reduction="")
    found = matched([[[send]], [[]], [[]]])
    assert (found.outcome, found.doubts) == (Outcome.HANG, (Doubt.PERMUTE,))
    assert not found.certain


def test_processes_of_several_devices_wait_as_one_rank():
    every = collective((), counted=Numbering.DEVICES)
    program = Program((every,), Grid(1, 8), ordered=True, partitioned_later=False)
    plans = [
        Plan(0, (Executed(0, "m"), Executed(1, "m")), ended=True),
        Plan(1, (Executed(0, "m"),), ended=True),
    ]
    found = match(plans, {"m": program}, 2)
    assert (found.outcome, found.reason, found.certain) == (Outcome.HANG, Reason.ENDED, True)
    (wait,) = found.waits
    assert (wait.ranks, wait.group, wait.missing, wait.step) == ((0,), (0, 1), (1,), 1)


def test_groups_within_a_process_concern_no_other():
    own = collective(((0, 1), (2, 3)), counted=Numbering.DEVICES)
    program = Program((own,), Grid(1, 4), ordered=True, partitioned_later=False)
    plans = [
        Plan(0, (Executed(0, "m"), Executed(1, "m")), ended=True),
        Plan(1, (Executed(0, "m"),), ended=True),
    ]
    assert match(plans, {"m": program}, 2).outcome is Outcome.MATCH


@pytest.mark.parametrize(
    ("counted", "grid", "doubts"),
    [
        (Numbering.REPLICAS, Grid(2, 2), (Doubt.ASSIGNMENT,)),
        (Numbering.WHOLE_REPLICAS, Grid(2, 2), ()),
        (Numbering.REPLICAS, Grid(4, 1), ()),
        (Numbering.DEVICES, Grid(1, 4), ()),
    ],
)
def test_which_device_is_which_is_assumed_of_replicas_by_partitions(counted, grid, doubts):
    """It matters where devices of two processes come together, and not all of them."""
    every = collective((), counted=counted)
    program = Program((every,), grid, ordered=True, partitioned_later=False)
    plans = [Plan(0, (Executed(0, "m"), Executed(1, "n")), ended=True)]
    plans += [Plan(rank, (Executed(0, "m"),), ended=True) for rank in range(1, 4)]
    found = match(plans, {"m": program, "n": program}, 4)
    assert (found.outcome, found.doubts, found.certain) == (Outcome.HANG, doubts, not doubts)
    together = [Plan(rank, (Executed(0, "m"),), ended=True) for rank in range(4)]
    assert match(together, {"m": program}, 4).certain


def test_devices_that_do_not_fit_the_ranks_are_not_placed():
    program = Program((collective(),), Grid(3, 1), ordered=True, partitioned_later=False)
    plans = [Plan(rank, (Executed(0, "m"),), ended=True) for rank in range(2)]
    assert match(plans, {"m": program}, 2).outcome is Outcome.UNKNOWN


def test_a_module_for_the_partitioner_that_one_rank_alone_runs_is_doubtful():
    same = Program((), Grid(1, 2), ordered=True, partitioned_later=True)
    plans = [
        Plan(0, (Executed(0, "a"), Executed(1, "b")), ended=True),
        Plan(1, (Executed(0, "a"),), ended=True),
    ]
    found = match(plans, {"a": same, "b": same}, 2)
    assert (found.outcome, found.certain) == (Outcome.MATCH, False)
    assert found.doubts == (Doubt.PARTITIONER,)


def test_headers_that_ask_for_more_devices_than_there_are_cost_nothing():
    program = Program((collective(),), Grid(999_999_999, 1), ordered=True, partitioned_later=False)
    plans = [Plan(rank, (Executed(0, "m"),), ended=True) for rank in range(3)]
    found = match(plans, {"m": program}, 3)
    assert (found.outcome, found.certain) == (Outcome.UNKNOWN, False)


def test_groups_that_cannot_be_read_leave_nothing_certain():
    strange = Unread("all-reduce", 7)
    found = matched([[[strange, collective()]], [[collective(size=8), strange]], [[collective()]]])
    assert (found.outcome, found.certain) == (Outcome.MISMATCH, False)
    assert found.doubts == (Doubt.GROUPS,)
