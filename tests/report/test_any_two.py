"""Any two graphs of the page, compared in the page: as the analysis pairs them, without causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_modules import FIXTURES, graph
from report_inputs import explained
from selenium.webdriver.support.select import Select

from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module
from xlagraph.report.build import run_report
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run, graph_order

if TYPE_CHECKING:
    from report_browser import Browser

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]

COUNTS = """
return ['changed', 'removed', 'added'].map((kind) => {
  const text = document.querySelector(`option[value=${kind}]`).textContent;
  return Number(text.match(/\\(([\\d,]+)\\)/)[1].replace(',', ''));
});
"""


def _carry(browser: Browser, address: str = "#/") -> None:
    browser.open(run_report(explained("carry")), address)


@pytest.mark.parametrize("pair", ["B~F", "E~C", "F~B"])
def test_another_size_differs_where_the_analysis_says(browser: Browser, pair: str) -> None:
    run = read_run(FIXTURES / "pairs" / "growing_sequence")
    stored = {letter: record.digest for letter, record, _ in graph_order(run)}
    a, b = (read_module(run.graph_text(stored[letter]), letter) for letter in pair.split("~"))
    diff = diff_modules(a, b)
    browser.open(run_report(explain_run(run)), f"#/pair/{pair}")
    found = browser.run(COUNTS)
    assert found == [len(diff.changes), len(diff.removed), len(diff.added)]
    assert browser.text(".pair-head h1").startswith(f"{pair[0]} → {pair[2]}")


def test_the_same_graph_does_not_differ_from_itself(browser: Browser) -> None:
    _carry(browser, "#/pair/E~E")
    assert "No instruction differs." in browser.text(".pair-head h1")
    assert browser.text(".count") == "0 differences"


def test_outputs_in_another_order_are_no_other_instructions(browser: Browser) -> None:
    diff = diff_modules(graph("carry:D"), graph("carry:F"))
    assert diff.differing == 0
    moved = sum(slot.a != slot.b for slot in (*diff.parameters, *diff.outputs))
    _carry(browser, "#/pair/D~F")
    assert f"No instruction differs; {moved} inputs and outputs" in browser.text(".pair-head h1")
    browser.go("#/pair/D~F/io")
    assert len(browser.texts(".map tr.changed")) == moved
    assert "blocks.0.up.weight" in " ".join(browser.texts(".map tr.changed"))


def test_every_instruction_has_one_row(browser: Browser) -> None:
    _carry(browser, "#/pair/D~G")
    browser.press("f")
    for side, letter in (("a", "D"), ("b", "G")):
        last = len(graph(f"carry:{letter}")) - 1
        for k in (0, last // 2, last):
            browser.go(f"#/pair/D~G/i/{side}{k}")
            assert graph(f"carry:{letter}").names[k] in browser.text(".row[aria-selected=true]")


def test_two_graphs_are_chosen_and_what_is_explained_already_is_shown(browser: Browser) -> None:
    _carry(browser)
    for before, after, where in (("D", "G", "#/pair/D~G"), ("D", "E", "#/pair/E/collectives")):
        browser.click("#pick")
        Select(browser.one("select[aria-label='First graph']")).select_by_visible_text(before)
        Select(browser.one("select[aria-label='Second graph']")).select_by_visible_text(after)
        browser.click("#pick-any")
        browser.until(lambda where=where: browser.address == where)
        browser.until(lambda: browser.texts(".pair-head"))
    assert "Buckets keep gradients" in browser.text(".pair-head h1")


def test_the_page_says_that_no_causes_were_looked_for(browser: Browser) -> None:
    _carry(browser, "#/pair/D~G")
    browser.click(".pair-head summary")
    assert "without looking for causes. xlagraph diff RUN:D RUN:G" in browser.text(".pair-head")
