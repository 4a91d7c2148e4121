"""Runs in which compiling has ended, whatever their last graphs differ in."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from written_runs import write
from written_steps import step

from xlagraph.message import SourceLine
from xlagraph.rules.shapes.sizes import PYTHON_INDEX
from xlagraph.run.records import EARLIER_COMPILES
from xlagraph.runs.by_design.quiet import _are_few, _goes_on


def scaled(number):
    """A step that scales by a number in its text: nobody means another graph by it."""
    text = step().replace(
        "%a = s32[8]{0} multiply(s32[8]{0} %p", "%a = s32[8]{0} multiply(s32[8]{0} %k"
    )
    scale = (
        f"  %n = s32[] constant({number})\n"
        "  %k = s32[8]{0} broadcast(s32[] %n), dimensions={}\n"
        "  %a = "
    )
    return text.replace("  %a = ", scale)


def run_of(folder, numbers, **options):
    return write(folder, [(20, scaled(number)) for number in numbers], **options)


STAGES = [3] * 10 + [5] * 10
"""Two stages, each with a number of its own, before the last one."""


@pytest.mark.parametrize(
    ("numbers", "is_problem"),
    [
        (STAGES + [7] * 20, False),
        (STAGES + [7] * 16, True),
        ([3] * 8 + [5] * 20 + [7] * 22, True),
        ([3] * 40 + [5] * 18, True),
        (STAGES + [7] * 20 + [9], True),
        ([3, 5, 7, 9, 11, 13] + [15] * 60, True),
    ],
    ids=["ended", "not long ago", "a pause as long", "a short end", "to the end", "many alike"],
)
def test_numbers_are_no_alarm_where_compiling_has_ended(tmp_path, numbers, is_problem):
    run = run_of(tmp_path, numbers)
    assert run.has_problem is is_problem
    if not is_problem:
        assert str(run.verdict).startswith("Stable: 3 compiles, ")
        (note,) = run.verdict.notes
        assert str(note).startswith("Settled since step 20: 2 compiles, ")


def test_where_graphs_from_before_the_capture_ran_nothing_is_known_to_end(tmp_path):
    assert run_of(tmp_path, STAGES + [7] * 20, notes=(EARLIER_COMPILES,)).has_problem


def test_a_size_between_others_may_still_come(tmp_path):
    sizes = [8] * 5 + [6] + [8] * 20
    steps = [(20, step(size).replace(f"[{size}]{{0}}", f"[4,{size}]{{1,0}}")) for size in sizes]
    assert write(tmp_path, steps).has_problem


@pytest.mark.parametrize(
    ("kind", "file", "goes_on"),
    [
        ("value", "/lib/site-packages/transformers/utils.py", False),
        ("value", "train.py", True),
        ("step", "/lib/site-packages/transformers/utils.py", True),
    ],
)
def test_what_a_library_reads_may_be_like_nothing_before(kind, file, goes_on):
    site = SourceLine(file, 12, "generate")
    node = SimpleNamespace(explanation=None, sync_kind=kind, call_site=site)
    assert _goes_on(node) is goes_on


@pytest.mark.parametrize(
    ("places", "is_ring"),
    [
        (range(0, 96, 16), True),
        (range(0, 80, 16), False),
        (range(16, 96, 16), False),
        ((0, 16, 48, 64, 80), False),
    ],
    ids=["all", "not yet the last", "not from the first", "one left out"],
)
def test_all_places_of_a_ring_are_few_however_many(places, is_ring):
    """A queue of six batches has as many graphs, and no more come."""
    written = [f"padding: {k} before and {80 - k} after" for k in places]
    changes = [f"{one} -> {other}" for one, other in pairwise(written)]
    line = SimpleNamespace(line=SourceLine("train.py", 12, "enqueue"))
    causes = [SimpleNamespace(kind=PYTHON_INDEX, title=one, place=line) for one in changes]
    left = [SimpleNamespace(explanation=SimpleNamespace(causes=(one,))) for one in causes]
    assert _are_few(left) is is_ring
