"""Pages of stream logs in a real browser: what is shown, size, hostile texts, access for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import axe_core_python
import pytest
from report_streams import (
    HOSTILE,
    PART,
    bucket_log,
    hostile_log,
    large_log,
    page_of,
    real_page,
    stepped_log,
)
from stream_browser import arrive, fills, pixels, press, red, show

from xlagraph.report.render import render_streams

if TYPE_CHECKING:
    from report_browser import Browser

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
COUNT_STROKES = """
for (const name of ['fillRect', 'stroke', 'strokeRect', 'fillText', 'fill']) {
  const real = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...given) {
    window.strokes++;
    return real.apply(this, given);
  };
}
"""


def test_the_verdict_and_the_first_finding_are_in_view(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    assert browser.text("h1") == (
        "Found: bucket ipg[0] is reduced on stream 4 before stream 3 has filled 1 part of it."
    )
    assert browser.texts(".lanes ol li") == [
        "the default stream", "stream 2", "stream 3", "stream 4",
    ]  # fmt: skip
    assert browser.text("#chosen h3").startswith("Finding 1: ")
    assert len(browser.texts(".card")) == 1
    assert browser.texts(".proof .proved")
    assert red(browser)


@pytest.mark.parametrize("name", ["good_prefetch", "001_fix"])
def test_nothing_is_red_where_nothing_is_found(browser: Browser, name: str) -> None:
    show(browser, real_page(name))
    assert browser.texts(".hero.calm")
    assert not browser.texts(".card")
    blocks = pixels(browser, *fills(browser))
    assert all(blocks)
    assert not red(browser)


def test_a_block_for_each_operator_in_the_colour_of_its_stream(browser: Browser) -> None:
    show(browser, real_page("002_G"))
    browser.press("0")
    for lane, row in zip(pixels(browser, *fills(browser)), browser.texts("td.num"), strict=True):
        middle = sorted({y for _, y in lane})[2]  # a row above the letters
        columns = sorted({x for x, y in lane if y == middle})
        starts = [x for x in columns if x - 1 not in columns]
        assert len(starts) == int(row)


def test_the_bucket_is_a_strip_by_producer(browser: Browser) -> None:
    show(browser, page_of(bucket_log()))
    parts = browser.run(
        "return [...document.querySelectorAll('.bytes-part')].map(e => [e.textContent,"
        " Number(e.style.flexGrow), getComputedStyle(e).backgroundColor, e.offsetWidth])"
    )
    assert [part[0] for part in parts] == ["layer.a", "layer.b", "layer.c", "layer.d"]
    assert {part[1] for part in parts} == {PART}
    lanes = fills(browser)
    assert [part[2] for part in parts] == [lanes[0], lanes[1], lanes[0], lanes[2]]
    assert max(p[3] for p in parts) - min(p[3] for p in parts) <= 2
    assert browser.texts(".bytes-part.missed") == ["layer.b", "layer.d"]
    browser.click(".bytes-part.missed")
    arrive(browser, "#/op/")
    assert "train.py:11" in browser.text("#chosen")
    assert "layer.b" in browser.text("#chosen")


def test_steps_are_compared_and_lead_to_the_picture(browser: Browser) -> None:
    show(browser, page_of(stepped_log()))
    cells = browser.texts("tr.changed td")
    assert cells[0] == cells[2]
    assert [cell.partition(",")[0] for cell in cells[1::2]] == [
        "the default stream", "side stream 2",
    ]  # fmt: skip
    assert "Step 3 differs from step 2" in browser.text(".step h3")
    browser.click(".step .go")
    arrive(browser, "#/op/")
    assert browser.text("#chosen h3") == "aten.copy_ on stream 2"
    assert "step3" in browser.text("#chosen dl")


def test_what_was_left_out_for_size_is_said(browser: Browser) -> None:
    log = large_log(6000)
    assert not page_of(log).cuts
    report = page_of(log, max_bytes=40_000)
    assert len(report.blobs["lanes"]) <= 10_000
    (cut,) = report.cuts
    show(browser, report)
    assert cut in browser.text("#seen")
    for finding in range(1, 4):
        browser.go(f"#/finding/{finding}")
        assert red(browser)
    browser.run("location.hash = '#/op/3'")
    browser.until(lambda: "has the address #/op/3" in browser.text("#lost"))


def test_hostile_texts_stay_texts(browser: Browser) -> None:
    report = page_of(hostile_log())
    page = render_streams(report)
    assert HOSTILE not in page
    assert page.count("</script>") == 1 + len(report.blobs)
    show(browser, report)
    for address in ("#/finding/1", "#/op/3", "#/op/9", "#finding-1"):
        browser.go(address)
    browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert "<img src=x" in browser.text(".card")
    assert browser.run("return document.images.length") == 0
    assert not browser.texts("main b")
    assert browser.run("return window.owned") is None
    assert "\u202e" not in browser.text("body")
    assert "\x1b" not in browser.text("body")


def test_the_page_asks_for_nothing(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    browser.press("0", "+", "n")
    assert browser.run("return performance.getEntriesByType('resource').map(e => e.name)") == []
    links = browser.run("return [...document.querySelectorAll('[href], [src]')].map(e => e.href)")
    assert all("#" in link for link in links)


def test_fifty_thousand_operators_cost_no_more_than_the_picture_is_wide(browser: Browser) -> None:
    show(browser, page_of(large_log(50_000), max_bytes=50_000_000))
    picture = browser.one("canvas.picture")
    lanes = len(browser.texts(".lanes ol li"))
    most = 2 * lanes * picture.size["width"]  # blocks, and arrows that are near
    browser.run(COUNT_STROKES)
    for key in "0+++-n0":
        browser.run("window.strokes = 0")
        press(browser, key)
        pixels(browser)
        assert 0 < browser.run("return window.strokes") <= most, key


def test_paper_has_the_picture_and_what_is_folded(browser: Browser) -> None:
    show(browser, real_page("001_bug"))
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.texts("details.about pre")
    browser.media("print")
    assert browser.one("canvas.picture").is_displayed()
    browser.media("screen")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not browser.texts("details.about pre")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, scheme: str, width: int) -> None:
    browser.resize(width)
    browser.scheme(scheme)
    for report in (page_of(bucket_log()), page_of(stepped_log()), page_of(large_log(400))):
        show(browser, report)
        browser.run(AXE.read_text())
        for address in ("#/finding/1", "#/op/3"):
            browser.run("location.hash = arguments[0]", address)
            browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
            found: Any = browser.driver.execute_async_script(
                "const done = arguments[0]; axe.run(document).then(r => done(r.violations.map("
                "v => [v.id, v.impact, v.nodes[0].html, v.nodes[0].failureSummary])))"
            )
            assert not found, json.dumps(found, indent=1)


@pytest.mark.parametrize("name", ["001_bug", "000min_bug", "good_nccl_async"])
def test_nothing_hangs_over_a_narrow_screen(browser: Browser, name: str) -> None:
    browser.resize(390)
    show(browser, real_page(name))
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    cut = browser.run(
        "return [...document.querySelectorAll('.lanes li')]"
        ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    )
    assert [name for name in cut if name.startswith("stream")] == []
