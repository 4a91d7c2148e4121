"""Links, mouse and keys on the page of a stream log, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from report_streams import bucket_log, large_log, page_of, real_page, stepped_log
from selenium.webdriver.common.keys import Keys
from stream_browser import arrive, fills, focus, missing_edge, pixels, point, press, red, show

if TYPE_CHECKING:
    from report_browser import Browser

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]


def test_card_and_picture_lead_to_each_other(browser: Browser) -> None:
    show(browser, page_of(stepped_log()))
    browser.click("#finding-1 .go")
    browser.until(lambda: browser.texts("#finding-1.hit"))
    assert browser.address == "#/finding/1"
    browser.click("#chosen a", said="to its card")
    arrive(browser, "#finding-1")
    assert browser.texts("#finding-1.hit")
    browser.click("#finding-1 .cite")
    arrive(browser, "#/op/")
    operator = browser.address
    browser.click("#chosen a", said="1")
    arrive(browser, "#/finding/1")
    browser.back(operator)
    assert browser.text("#chosen h3").startswith("aten.copy_ on")


def test_the_missing_edge_leads_to_its_card(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    edge = missing_edge(browser)
    point(browser, edge).perform()
    browser.until(lambda: browser.texts(".lanes .tip"))
    assert browser.text(".lanes .tip") == "missing: stream 4 waits for stream 3"
    point(browser, edge).click().perform()
    arrive(browser, "#finding-1")
    assert browser.texts("#finding-1.hit")


def test_a_click_on_a_block_chooses_it(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    where = pixels(browser, fills(browser)[3])[0][40]
    point(browser, where).click().perform()
    arrive(browser, "#/op/")
    assert browser.text("#chosen h3") == "aten.copy_ on stream 4"
    chosen = browser.text("#chosen dl")
    assert "seeds.py:94" in chosen
    assert "AccumulateGrad" in chosen
    assert "stream 2 up to aten.copy_" in chosen


def test_a_drag_moves_and_chooses_nothing(browser: Browser) -> None:
    show(browser, page_of(large_log(200)), "#/op/120")
    before = pixels(browser, fills(browser)[0])[0]
    point(browser, (400, 40)).click_and_hold().move_by_offset(150, 0).release().perform()
    assert browser.address == "#/op/120"
    after = pixels(browser, fills(browser)[0])[0]
    assert min(x for x, _ in after) != min(x for x, _ in before) or len(after) != len(before)


@pytest.mark.parametrize("address", ["#/op/999999", "#/finding/77", "#finding-77", "#/nonsense/%"])
def test_an_address_of_nothing_does_no_harm(browser: Browser, address: str) -> None:
    show(browser, real_page("001_bug"), address)
    assert browser.text("#chosen h3").startswith("Finding 1")


def test_arrows_move_along_and_between_lanes(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    browser.click(".accesses .cite")
    arrive(browser, "#/op/")
    start = browser.text("#chosen h3")
    assert start == "aten.copy_ on stream 3"
    focus(browser)
    press(browser, Keys.ARROW_LEFT)
    assert browser.text("#chosen h3") == "aten.mul on stream 3"
    press(browser, Keys.ARROW_RIGHT)
    assert browser.text("#chosen h3") == start
    press(browser, Keys.ARROW_DOWN)
    assert browser.text("#chosen h3") == "aten.copy_ on stream 4"
    press(browser, Keys.ARROW_DOWN)
    assert browser.text("#chosen h3") == "aten.copy_ on stream 4"
    press(browser, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP)
    assert browser.text("#chosen h3").endswith("on the default stream")
    press(browser, Keys.HOME)
    first = browser.address
    press(browser, Keys.ARROW_LEFT)
    assert browser.address == first
    press(browser, Keys.END)
    last = browser.address
    press(browser, Keys.ARROW_RIGHT)
    assert browser.address == last != first


def test_letters(browser: Browser) -> None:
    show(browser, page_of(large_log(400)))
    seen = []
    for _ in range(4):
        press(browser, "n")
        seen.append(browser.address)
    assert seen == ["#/finding/2", "#/finding/3", "#/finding/1", "#/finding/2"]
    press(browser, "p")
    assert browser.address == "#/finding/1"
    press(browser, "0")
    whole = len(pixels(browser, fills(browser)[0])[0])
    press(browser, "+", "+", "+", "+")
    assert len(pixels(browser, fills(browser)[0])[0]) != whole
    press(browser, "-", "-", "-", "-")
    assert len(pixels(browser, fills(browser)[0])[0]) == whole
    focus(browser)
    press(browser, "n")
    press(browser, Keys.ENTER)
    assert browser.address == "#finding-2"
    press(browser, "?")
    assert browser.one("#help").is_displayed()
    browser.escape()
    assert not browser.one("#help").is_displayed()


def test_search_finds_operators_nodes_lines_and_parameters(browser: Browser) -> None:
    show(browser, page_of(bucket_log()))
    browser.press("/")
    browser.press(*"copy_")
    assert browser.text(".lanes .count") == "4 matches"
    browser.press(*" layer.b")
    assert browser.text(".lanes .count") == "1 match"
    browser.press(Keys.ENTER)
    browser.until(lambda: "layer.b" in browser.text("#chosen"))
    browser.escape()
    assert browser.text(".lanes .count") == ""
    browser.press("/")
    browser.press(*"accumulategrad train.py:12")
    assert browser.text(".lanes .count") == "1 match"
    browser.escape()


def test_light_and_dark_are_painted_anew(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    light = red(browser)
    before = browser.run("return document.querySelector('canvas.picture').toDataURL()")
    browser.press("t")
    dark = red(browser)
    assert light
    assert dark
    assert browser.run("return document.querySelector('canvas.picture').toDataURL()") != before
    browser.press("t")
    browser.scheme("dark")
    show(browser, real_page("001_bug"))
    assert sorted(red(browser)) == sorted(dark)
