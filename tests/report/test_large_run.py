"""A run of many graphs on many ranks: what its page merges, groups, counts and draws on demand."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from real_modules import FIXTURES, explained_run
from repository import script
from selenium.webdriver.common.keys import Keys

from xlagraph.ranks.explain import explain_ranks
from xlagraph.report.build import run_report
from xlagraph.report.model import ROWS_SHOWN
from xlagraph.report.pack import unpack
from xlagraph.report.render import render
from xlagraph.run.reader import read_run
from xlagraph.runs.causes.taken import values_taken
from xlagraph.runs.explain import explain_run

if TYPE_CHECKING:
    from report_browser import Browser

    from xlagraph.report.model import Report
    from xlagraph.runs.model import RunExplanation

maker = script("benchmarks/make_large_run.py")
GRAPHS, STEPS, RANKS = 28, 300, 20
FOLDERS: list[TemporaryDirectory[str]] = []
"""Kept until the tests end: modules are read as the page is made."""


@lru_cache
def large() -> RunExplanation:
    """Few enough graphs to be explained in a few seconds."""
    FOLDERS.append(TemporaryDirectory())
    folder = Path(FOLDERS[0].name) / "large"
    maker.write_large_run(folder, GRAPHS, STEPS, RANKS)
    return explain_run(read_run(folder))


@lru_cache
def page() -> Report:
    """Its report, with what its ranks did."""
    return run_report(large(), ranks=explain_ranks(large()))


def test_ranks_with_equal_rows_are_one() -> None:
    times: Any = unpack(page().blobs["timeline"])
    others = f"ranks 0-{maker.OUT_OF_TURN - 1}, {maker.OUT_OF_TURN + 1}-{RANKS - 1}"
    assert [row["label"] for row in times["ranks"]] == [others, f"rank {maker.OUT_OF_TURN}"]
    assert len(times["steps"]) >= STEPS


def test_warm_up_and_lost_time_are_told_apart() -> None:
    times: Any = unpack(page().blobs["timeline"])
    outcomes = [row["outcomes"] for row in times["ranks"]]
    warm_up = {digest for group in large().groups if group.expected for digest in group.graphs}
    assert all(row.count("w") == len(warm_up) for row in outcomes)
    assert all(row.count("c") == GRAPHS - len(warm_up) for row in outcomes)


def test_a_cause_of_many_graphs_says_which_sizes_there_were() -> None:
    sizes = next(group for group in large().groups if group.kind.id == "input-shape")
    taken = values_taken(sizes, large().graphs)
    assert taken is not None
    values = [value for value, _ in taken.values]
    assert min(values) >= maker.FIRST_SIZE
    assert max(values) == maker.FIRST_SIZE + GRAPHS * 9 // 10 - 1
    assert len(values) >= len(sizes.graphs)
    assert f"took {len(values)} sizes, {min(values):g} to {max(values):g}" in str(taken.message)
    runs = {node.digest: node.compiles + node.hits for node in large().graphs}
    assert sum(count for _, count in taken.values) >= sum(runs[d] for d in sizes.graphs)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("growing_cache", "dimension 1 of input 3 grows by 1 per compile: 1, 2, ... 8"),
        ("growing_sequence", "dimension 1 of input 10 grows by 1 per compile: 5, 6, ... 10"),
        ("pad_to_multiple", "dimension 0 of input 4 took 3 sizes, 8 to 24"),
        ("focal_exponent", "the constant took 7 values, 3 to 9"),
        ("python_index", "where this slice begins took 8 values, 0 to 7"),
    ],
)
def test_numbers_that_a_program_changes(name: str, said: str) -> None:
    run = explained_run(FIXTURES / "pairs" / name)
    found = [values_taken(group, run.graphs) for group in run.groups]
    assert [str(taken.message) for taken in found if taken] == [said]


def test_what_differs_once_has_no_values() -> None:
    run = explained_run(FIXTURES / "pairs" / "last_batch")
    assert not any(values_taken(group, run.graphs) for group in run.groups)


def test_the_page_is_small_and_shows_each_cause() -> None:
    report = page()
    assert len(render(report)) < 1_500_000
    assert all(card.address for card in report.causes)
    assert report.ranks is not None
    assert len(report.ranks.rows) < 8
    assert len(report.ranks.notes) < 12


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
def test_long_tables_draw_what_is_in_view(browser: Browser) -> None:
    browser.open(page())
    browser.until(lambda: browser.texts(".graphs .long tr[aria-rowindex]"))
    run = page().run
    assert run is not None
    rows = next(part.rows for part in run.sections if len(part.rows) > ROWS_SHOWN)
    last = rows[-1].letter
    browser.run("document.querySelector('.graphs .long').scrollTop = 1e6")
    browser.until(
        lambda: browser.run("return !!document.getElementById(arguments[0])", f"graph-{last}")
    )
    assert browser.run("return document.documentElement.scrollHeight") < 4000
    browser.go(f"#graph-{rows[0].letter}")
    assert rows[0].letter in browser.text("tr.hit")


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
def test_the_timeline_zooms_and_pans(browser: Browser) -> None:
    browser.open(page())
    browser.until(lambda: browser.texts("#timeline canvas"))
    canvas = browser.one("#timeline canvas")
    painted = "return arguments[0].toDataURL()"
    whole = browser.run(painted, canvas)
    browser.run("arguments[0].focus()", canvas)
    browser.press("+", "+", "+")
    close = browser.run(painted, canvas)
    assert close != whole
    browser.run(
        """const box = arguments[0].getBoundingClientRect(), x = box.x;
        const at = { bubbles: true, clientY: box.y + 60 };
        const send = (type, more) => arguments[0].dispatchEvent(
          new PointerEvent(type, { ...at, ...more }));
        send('pointerdown', { clientX: x + 900 });
        send('pointermove', { clientX: x + 300, buttons: 1 });
        window.dispatchEvent(new PointerEvent('pointerup', at));""",
        canvas,
    )
    assert browser.run(painted, canvas) not in (close, whole)
    browser.press("0")
    assert browser.run(painted, canvas) == whole
    browser.run(
        """const box = arguments[0].getBoundingClientRect();
        arguments[0].dispatchEvent(new WheelEvent('wheel',
          { ctrlKey: true, deltaY: -200, clientX: box.x + 400, clientY: box.y + 60 }));""",
        canvas,
    )
    assert browser.run(painted, canvas) != whole
    browser.press(Keys.ARROW_RIGHT)
    assert browser.text("#live").startswith("Step 0, ranks 0-16, 18-19: compiled")


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
def test_a_comparison_among_many_is_found(browser: Browser) -> None:
    browser.open(page())
    offered = len(page().pairs)
    browser.click("#pick")
    assert len(browser.texts(".picks li")) == offered
    browser.one("#pick-search").send_keys("slice")
    assert 0 < len(browser.texts(".picks li")) < offered
