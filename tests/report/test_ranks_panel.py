"""The page's section on ranks, in real Chromium and as data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import axe_core_python
import pytest
from real_modules import explained_run
from repository import ROOT

from xlagraph.collectives.groups import Grid, Numbering
from xlagraph.collectives.program import Collective, Program
from xlagraph.ranks.explain import Stop, explain_ranks
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Executed, Plan
from xlagraph.ranks.tasks import Stand
from xlagraph.report.build import run_report
from xlagraph.report.model import ReportOptions
from xlagraph.report.render import plain, render
from xlagraph.run.reader import Run, read_run
from xlagraph.runs.explain import explain_run

if TYPE_CHECKING:
    from report_browser import Browser

RUNS = ROOT / "fixtures" / "ranks"
AXE = Path(axe_core_python.__file__).parent / "axe.min.js"


def report(run, *, redact=False):
    explained = explain_run(run)
    return run_report(explained, ReportOptions(redact=redact), explain_ranks(explained))


def wide(name, ranks):
    """The captured eight, and more ranks that ran what rank 1 ran."""
    run = read_run(RUNS / name)
    model = next(one for one in run.processes if one.record.rank == 1)
    more = tuple(
        replace(
            model,
            file=f"records-{rank}-host-{rank}.jsonl",
            record=replace(model.record, rank=rank, pid=100 + rank),
            syncs=tuple(replace(sync, rank=rank) for sync in model.syncs),
        )
        for rank in range(8, ranks)
    )
    return Run(run.name, run.path, (*run.processes, *more))


def collective(groups, at):
    return Collective(
        "all-reduce", (("f32", 4),), "add", groups, Numbering.REPLICAS, (), "", at,
        is_async=False, removable=False,
    )  # fmt: skip


def cycle():
    """Four ranks that wait for each other in a ring."""
    near, far = collective(((0, 1), (2, 3)), 1), collective(((0, 2), (1, 3)), 2)
    programs = {
        "near": Program((near, far), Grid(4, 1), ordered=True, partitioned_later=False),
        "far": Program((far, near), Grid(4, 1), ordered=True, partitioned_later=False),
    }
    order = ("near", "far", "far", "near")
    plans = [Plan(k, (Executed(0, digest),), ended=True) for k, digest in enumerate(order)]
    matching = match(plans, programs, 4)
    stops = tuple(Stop(wait, "A", Stand(("f32[4]",), (), ())) for wait in matching.waits)
    explained = explained_run(RUNS / "log")
    found = replace(explain_ranks(explained), matching=matching, stops=stops, divergences=())
    return run_report(explained, None, found)


def test_what_hangs_comes_first():
    page = report(read_run(RUNS / "order"))
    assert plain(page.verdict.what).startswith(
        "The job hangs or fails in step 4: all-reduce of 2.bias"
    )
    assert [number for number, _, is_it in page.source if is_it] == [56]
    assert plain(page.verdict.notes[-1]).startswith("Apart from the mismatch: ")
    assert page.aside == "Apart from the mismatch"
    assert not page.stable
    assert [box.ranks for box in page.ranks.boxes] == ["ranks 0-6", "rank 7"]
    assert [box.is_odd for box in page.ranks.boxes] == [False, True]
    (arrow,) = page.ranks.arrows
    assert arrow.text == "ranks 0-6 and rank 7 meet and do not match"


def test_where_a_rank_ended_comes_before_where_the_others_wait():
    page = report(read_run(RUNS / "fewer"))
    assert [number for number, _, is_it in page.source if is_it] == [71]
    ended = page.ranks.boxes[-1]
    assert (ended.ranks, ended.place, ended.site) == (
        "rank 7",
        "last step 5",
        "examples/ranks.py:71",
    )
    text = render(page)
    assert "Apart from the hang</h2>" in text
    assert "Causes, costliest first" not in text
    (steps,) = [fact for fact in page.facts if fact.label.startswith("steps")]
    assert (steps.value, steps.label) == ("7", "steps, 0 to 6")


def test_a_run_of_one_rank_has_no_such_section():
    run = read_run(ROOT / "fixtures" / "runs" / "fixed")
    page = report(run)
    assert page.ranks is None
    assert "h-ranks" not in render(page)


def test_sixty_four_ranks_are_as_many_rows_as_they_are_kinds():
    page = report(wide("order", 64))
    assert page.ranks.head == "64 ranks, numbered by RANK"
    assert [row.ranks for row in page.ranks.rows] == ["7", "0-6, 8-63"]
    assert len(render(page)) < 300_000


def test_a_cycle_is_drawn_with_an_arrow_for_each_wait():
    page = cycle().ranks
    assert [box.ranks for box in page.boxes] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert sorted(arrow.text for arrow in page.arrows) == [
        "rank 0 waits for rank 1",
        "rank 1 waits for rank 3",
        "rank 2 waits for rank 0",
        "rank 3 waits for rank 2",
    ]


def test_redacted_nothing_of_the_program_is_left():
    text = render(report(read_run(RUNS / "order"), redact=True))
    assert "ranks.py" not in text
    assert "0.weight" not in text
    assert "2.bias" not in text
    assert "all-reduce" in text


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
@pytest.mark.parametrize("width", [1440, 390])
def test_the_section_as_it_is_seen(browser: Browser, width: int) -> None:
    browser.resize(width)
    browser.open(cycle())
    assert browser.text("#h-ranks") == "8 ranks, numbered by RANK"
    assert len(browser.texts(".boxes li")) == 4
    assert len(browser.texts(".arrows path.arrow")) == 4
    boxes = browser.run(
        "return [...document.querySelectorAll('.boxes li')].map(b => b.getBoundingClientRect().top)"
    )
    top = browser.run("return document.querySelector('.arrows').getBoundingClientRect().top")
    assert [round(box - top) for box in boxes] == [0, 76, 152, 228]
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(overflow) <= 0
    browser.run(AXE.read_text())
    found = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run('.ranks').then(r => done(r.violations.map(v => v.id)));"
    )
    assert found == []
