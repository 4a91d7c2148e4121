"""The report on a phone, on paper, and in a browser that runs no scripts."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import pytest
from real_modules import ROOT, RUNS
from report_inputs import explained
from report_streams import real_page

from xlagraph.report.build import run_report
from xlagraph.report.model import ReportOptions
from xlagraph.report.render import render, render_streams
from xlagraph.run.reader import read_run
from xlagraph.run.records import SourceRecord
from xlagraph.runs.explain import explain_run
from xlagraph.runs.steady import comparisons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from report_browser import Browser

    from xlagraph.runs.model import RunExplanation

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]

BROKEN_NUMBERS = """
const broken = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode;
  if (!text.parentElement.checkVisibility() || text.parentElement.closest('script, pre')) continue;
  for (const found of text.data.matchAll(/\\d+/g)) {
    const range = document.createRange();
    range.setStart(text, found.index);
    range.setEnd(text, found.index + found[0].length);
    if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1)
      broken.push(text.data.trim());
  }
}
return broken;
"""
DEAD = """
return [...document.querySelectorAll('a, button, input, select')].filter((e) => {
  if (!e.checkVisibility() || getComputedStyle(e).pointerEvents === 'none') return false;
  const goal = e.getAttribute('href');
  return !goal?.startsWith('#') || goal.startsWith('#/') || !document.getElementById(goal.slice(1));
}).map((e) => e.outerHTML);
"""


def _carry(browser: Browser, address: str = "#/") -> None:
    browser.open(run_report(explained("carry")), address)


@pytest.mark.parametrize(
    "address", ["#/", "#/pair/E/i/b1127", "#/pair/E/io", "#/pair/G/collectives", "#/pair/E/causes"]
)
def test_no_number_is_broken_on_a_phone(browser: Browser, address: str) -> None:
    browser.resize(390, 844)
    _carry(browser, address)
    assert browser.run(BROKEN_NUMBERS) == []


def test_a_deep_link_shows_row_and_panel_on_a_phone(browser: Browser) -> None:
    browser.resize(390, 844)
    _carry(browser, "#/pair/E/i/b1127")
    box = """const box = document.querySelector(arguments[0]).getBoundingClientRect();
        return [box.top, box.bottom]"""
    top, bottom = browser.run(box, ".detail")
    assert 300 < top < 600
    assert bottom <= 844
    row_top, row_bottom = browser.run(box, ".row[aria-selected=true]")
    assert 100 < row_top < row_bottom <= top
    browser.click(".detail .close")
    assert not browser.texts(".detail")
    assert browser.address == "#/pair/E/i"


def test_filters_open_on_a_phone(browser: Browser) -> None:
    browser.resize(390, 844)
    _carry(browser, "#/pair/E")
    assert not browser.texts(".filters")
    browser.click(".filter-button")
    assert browser.texts(".filters select")


def test_paper_has_every_differing_row_in_full(browser: Browser) -> None:
    (shown,) = [one for one in comparisons(explained("carry")) if one.labels == ("E", "G")]
    diff = shown.explain()[0].diff
    _carry(browser, "#/pair/G")
    browser.media("print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert len(browser.texts(".row:is(.changed, .added, .removed)")) == diff.differing
    assert len(browser.texts(".row")) == diff.differing
    cut = """return [...document.querySelectorAll('.row .side')].filter(
        e => e.scrollWidth > e.clientWidth + 1 || e.textContent.includes('…')).length"""
    assert browser.run(cut) == 0
    change = diff.changes[0]
    whole = f"%{diff.b.names[change.b]} = {diff.b.shapes[change.b]} {diff.b.opcodes[change.b]}("
    assert any(whole in text for text in browser.texts(".row .b"))
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.media("screen")


@pytest.fixture
def unscripted(browser: Browser) -> Iterator[Browser]:
    """The browser with scripts switched off."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    yield browser
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("kind", ["run", "streams"])
def test_no_control_is_dead_without_scripts(unscripted: Browser, kind: str) -> None:
    page = render(run_report(explained("carry")))
    text = page if kind == "run" else render_streams(real_page("001_bug"))
    file = unscripted.folder / f"unscripted-{kind}.html"
    file.write_text(text)
    unscripted.driver.get(f"file://{file}")
    assert unscripted.text("h1")
    assert unscripted.run(DEAD) == []
    assert unscripted.texts("noscript, .card .answer")


def test_what_where_and_fix_come_first(browser: Browser) -> None:
    _carry(browser)
    order = browser.run(
        """return ['h1', '.hero .answer > :nth-child(1)', '.hero .answer > :nth-child(2)', '.card']
        .map((one) => document.querySelector(one).getBoundingClientRect().top)"""
    )
    assert order == sorted(order)
    assert order[-1] < 500
    assert browser.texts(".hero .answer dt") == ["Where", "Fix"]


def _with_lines() -> RunExplanation:
    """A committed run with the lines of its program, as a capture stores them today."""
    run = read_run(RUNS.parent / "pairs" / "last_batch")
    texts = (ROOT / "examples" / "scenarios" / "last_batch.py").read_text().splitlines()
    frames = [f for p in run.processes for s in p.syncs for f in s.call_site]
    file = next(frame.file for frame in frames if "last_batch" in frame.file)
    stored = SourceRecord(file, 1, tuple(texts))
    return explain_run(
        replace(run, processes=tuple(replace(p, sources=(stored,)) for p in run.processes))
    )


def test_the_line_of_the_program_stands_beside_its_place(browser: Browser) -> None:
    report = run_report(_with_lines())
    place = next(group.place for group in _with_lines().groups if not group.expected)
    assert place.line is not None
    assert [number - place.line.line for number, _ in place.source] == [-2, -1, 0, 1], (
        "its last but one"
    )
    browser.open(report)
    (here,) = browser.texts(".hero .excerpt .here")
    text = dict(place.source)[place.line.line]
    assert here == f"{place.line.line:5}  {text}"
    browser.go("#/pair/B/causes")
    assert browser.texts(".panel .excerpt .here") == [here]


def test_a_redacted_page_has_no_line_of_the_program() -> None:
    report = run_report(_with_lines(), ReportOptions(redact=True))
    assert not any(card.source for card in report.causes)
    text = (ROOT / "examples" / "scenarios" / "last_batch.py").read_text()
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 25]
    page = render(report)
    assert not any(escape(line) in page for line in lines[1:])


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
def test_the_causes_of_a_pair_say_of_which_outputs_they_are_proved(browser: Browser) -> None:
    browser.open(run_report(explained("demo")), "#/pair/E/causes")
    browser.until(lambda: browser.texts("#c1 .proved"))
    assert browser.text("#c1 .proved") == (
        "✓ checked for 100 of D's 113 and E's 122 outputs: without these differences these "
        "are identical"
    )
    assert browser.text(".pair-head .proved") == " ✓ proved for 100 of D's 113 and E's 122 outputs"
