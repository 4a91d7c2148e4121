"""The pair view in Chromium: where it opens, what is folded, names, search, panel, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_modules import FIXTURES, explained_run
from report_inputs import explained, small_pair
from selenium.webdriver.common.keys import Keys

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.report.build import pair_report, run_report

if TYPE_CHECKING:
    from report_browser import Browser

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]

GROWING = FIXTURES / "pairs" / "growing_sequence"
SELECTED = ".row[aria-selected=true]"


def _carry(browser: Browser, address: str = "#/") -> None:
    browser.open(run_report(explained("carry")), address)


def _growing(browser: Browser, address: str = "#/") -> None:
    browser.open(run_report(explained_run(GROWING)), address)


def _search(browser: Browser, words: str) -> None:
    field = browser.one("input[aria-label='Search instructions']")
    field.clear()
    field.send_keys(words)


def test_buckets_open_in_the_view_of_collectives(browser: Browser) -> None:
    _carry(browser)
    browser.click("#cause-1 .go")
    browser.until(lambda: browser.texts(".buckets"))
    assert browser.address == "#/pair/E/collectives"


def test_any_other_cause_opens_at_its_origin_with_the_panel_filled(browser: Browser) -> None:
    _growing(browser)
    browser.click("#cause-1 .go")
    browser.until(lambda: browser.texts(f"{SELECTED}.origin.changed"))
    assert "p10.63" in browser.text(SELECTED)
    assert browser.text(".detail .ab mark")
    assert "Origin of 236 other differences" in " ".join(browser.text(".detail .leads").split())


def test_what_follows_is_folded_and_says_from_what(browser: Browser) -> None:
    _growing(browser, "#/pair/C")
    assert any("differences that follow from p10.63" in text for text in browser.texts(".fold"))
    assert len(browser.texts(".row.origin")) == 1
    browser.press("f")
    browser.until(lambda: browser.texts(".row.follows"))
    browser.click(".row.follows")
    browser.until(lambda: "Follows from p10.63" in browser.text(".detail .status"))


def test_an_equal_constant_is_no_differing_operand(browser: Browser) -> None:
    a = """HloModule a
ENTRY main {
  p0 = f32[] parameter(0)
  p1 = f32[] parameter(1)
  c = f32[] constant(1)
  s = f32[] add(p0, c)
  m = f32[] multiply(p1, c)
  ROOT r = (f32[], f32[]) tuple(s, m)
}
"""
    b = a.replace(
        "  m = f32[] multiply(p1, c)", "  n = f32[] negate(p1)\n  m = f32[] multiply(n, d)"
    )
    b = b.replace("  s =", "  d = f32[] constant(1)\n  s =")
    explanation = explain_modules(read_module(a, "a"), read_module(b, "b"))
    (change,) = explanation.diff.changes
    assert (change.fields, explanation.diff.b.names[change.b]) == (("operands",), "m")
    browser.open(pair_report(explanation, ("a", "b")), f"#/pair/B/i/a{change.a}")
    assert browser.texts(".row.changed mark") == ["p1", "n"]
    assert browser.texts(".detail li.differs a") == ["p1", "n"]


def test_texts_that_give_the_same_values_ask_for_no_cause(browser: Browser) -> None:
    a = """HloModule a
ENTRY main {
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT r = f32[4] exponential(n)
}
"""
    b = """HloModule b
ENTRY main {
  p = f32[4] parameter(0)
  e = f32[4] exponential(p)
  c = f32[] constant(1)
  o = f32[4] broadcast(c), dimensions={}
  ROOT r = f32[4] divide(o, e)
}
"""
    explanation = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert explanation.same
    browser.open(pair_report(explanation, ("a", "b")), "#/pair/B/causes")
    assert browser.texts(".panel .empty") == ["No cause to name: both compute the same."]


def test_both_sides_stand_beside_each_other_and_share_what_is_equal(browser: Browser) -> None:
    browser.open(pair_report(small_pair(), ("a.hlo", "b.hlo")), "#/pair/B/i/a4")
    assert browser.texts(".detail .ab thead th") == ["Property", "in A", "in B"]
    assert browser.texts(".detail .ab mark") == ["1", "2"]
    assert "f32[]" in browser.texts(".detail .ab td.both")


def test_the_panel_is_as_wide_as_one_drags_it(browser: Browser) -> None:
    _carry(browser, "#/pair/E")
    width = "return document.querySelector('.detail').getBoundingClientRect().width"
    before = browser.run(width)
    browser.run("document.querySelector('.bar-between').focus()")
    browser.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.run(width) == before + 80
    browser.run(
        """const bar = document.querySelector('.bar-between'), x = bar.getBoundingClientRect().x;
        bar.setPointerCapture = bar.hasPointerCapture = () => true;
        for (const [type, clientX] of [['pointerdown', x], ['pointermove', x - 120]])
          bar.dispatchEvent(new PointerEvent(type, { clientX, pointerId: 1 }));"""
    )
    assert browser.run(width) > before + 180


def test_the_minimap_shows_where_and_goes_there(browser: Browser) -> None:
    _carry(browser, "#/pair/G")
    browser.press("f")
    inked = """const map = document.querySelector('.minimap'), pen = map.getContext('2d');
        const data = pen.getImageData(0, 0, map.width, map.height).data, rows = new Set();
        for (let k = 3; k < data.length; k += 4) {
          if (data[k] > 100) rows.add((k >> 2) / map.width | 0);
        }
        return rows.size"""
    assert browser.run(inked) > 20
    browser.run(
        """const map = document.querySelector('.minimap'), box = map.getBoundingClientRect();
        map.dispatchEvent(new PointerEvent('pointerdown', { clientY: box.bottom - 5 }));"""
    )
    assert browser.run("return document.querySelector('.list').scrollTop") > 1000


def test_tensors_are_found_by_name_and_shown(browser: Browser) -> None:
    _carry(browser, "#/pair/G")
    _search(browser, "blocks.2 up.weight")
    rows = browser.texts(".row")
    assert any("parameter(" in row for row in rows)
    assert all("blocks.2" in row and "up.weight" in row for row in rows)
    browser.press(Keys.ENTER)
    assert "blocks.2" in browser.text(".detail .ab")
    assert {"input", "output"} & {text.split()[0] for text in browser.texts(".detail .ab th")}


def test_a_search_takes_an_expression_and_enter_goes_on(browser: Browser) -> None:
    _carry(browser, "#/pair/G")
    _search(browser, r"/^p\d+/")
    parameters = browser.texts(".row")
    assert parameters
    assert all("parameter(" in text for text in parameters)
    browser.press(Keys.ENTER)
    first = browser.address
    browser.press(Keys.ENTER)
    assert browser.address != first
    browser.press(Keys.SHIFT + Keys.ENTER)
    assert browser.address == first
    assert browser.run("return document.activeElement.type") == "search"
    _search(browser, "/(/")
    assert browser.text(".count") == "not a regular expression: ("


def test_filters_are_in_the_address(browser: Browser) -> None:
    browser.forget()
    _carry(browser, "#/pair/G?q=op:multiply&rows=origins&cause=2")
    found = browser.text(".count")
    assert int(found.split()[0]) > 0
    assert len(browser.texts(".row.origin.added")) > 0
    address = browser.address
    browser.click(".row")
    assert browser.address.endswith("?" + address.partition("?")[2].replace(":", "%3A"))
    address = browser.address
    browser.go("#/pair/G/io")
    browser.back(address)
    assert browser.text(".count") == found
    assert browser.texts(SELECTED)


@pytest.mark.parametrize("address", ["#/pair/ZZ", "#nothing", "#/pair/E/i/b999999", "#/a/b"])
def test_an_unknown_address_says_so(browser: Browser, address: str) -> None:
    _carry(browser, address)
    assert address in browser.text("#lost")
    assert browser.one("#lost").is_displayed()
    browser.click("#lost a")
    browser.until(lambda: not browser.one("#lost").is_displayed())


def test_a_comparison_is_picked_by_searching(browser: Browser) -> None:
    _carry(browser)
    browser.click("#pick")
    browser.one("#pick-search").send_keys("D → f")
    assert len(browser.texts(".picks li")) == 1
    browser.one("#pick-search").send_keys(Keys.ENTER)
    browser.until(lambda: browser.texts("#pair .pair-head"))
    assert not browser.one("#picker").is_displayed()
