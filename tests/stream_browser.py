"""The picture of a stream log in a browser: its pixels, the mouse on it, where the page is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selenium.webdriver.common.action_chains import ActionChains

from xlagraph.report.render import render_streams

if TYPE_CHECKING:
    from report_browser import Browser

    from xlagraph.report.stream_model import StreamReport

PIXELS = """
const canvas = document.querySelector('canvas.picture'), probe = document.createElement('i');
document.body.append(probe);
const rgb = (colour) => {
  probe.style.color = colour;
  return getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number);
};
const wanted = arguments[0].map(rgb), found = wanted.map(() => []);
probe.remove();
const copy = new OffscreenCanvas(canvas.width, canvas.height);
const pen = copy.getContext('2d', { willReadFrequently: true });
pen.drawImage(canvas, 0, 0);
const { data, width, height } = pen.getImageData(0, 0, canvas.width, canvas.height);
for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
  const at = 4 * (y * width + x);
  wanted.forEach((one, k) => {
    if (one.every((value, i) => data[at + i] === value)) found[k].push([x, y]);
  });
}
return found;
"""
Point = tuple[int, int]


def show(browser: Browser, report: StreamReport, address: str = "#/") -> None:
    browser.show(render_streams(report), address)


def pixels(browser: Browser, *colours: str) -> list[list[Point]]:
    """Where the picture has each of these colours, once what was asked for is painted."""
    browser.driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )
    found: list[list[Point]] = browser.run(PIXELS, list(colours))
    return found


def arrive(browser: Browser, address: str) -> None:
    """Waits until the page is at an address, or at one that begins with it."""
    browser.until(lambda: browser.run("return document.body.dataset.ready").startswith(address))


def press(browser: Browser, *keys: str) -> None:
    """Presses keys; after each the page has gone where it leads."""
    for key in keys:
        browser.press(key)
        browser.until(lambda: browser.run("return document.body.dataset.ready") == browser.address)


def red(browser: Browser) -> list[Point]:
    return pixels(browser, "var(--bad)")[0]


def fills(browser: Browser) -> list[str]:
    """The colour of each lane."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('.lanes ol .dot')]"
        ".map(e => getComputedStyle(e).backgroundColor)"
    )
    return found


def point(browser: Browser, where: Point) -> ActionChains:
    """The mouse at a point of the picture."""
    picture = browser.one("canvas.picture")
    size = picture.size
    x, y = where[0] - size["width"] // 2, where[1] - size["height"] // 2
    return ActionChains(browser.driver).move_to_element_with_offset(picture, x, y)


def missing_edge(browser: Browser) -> Point:
    """A point of the red line, where no lane has a block."""
    lines, *blocks = pixels(browser, "var(--bad)", *fills(browser))
    rows = {y for lane in blocks for _, y in lane}
    return next((x, y) for x, y in lines if not {y - 2, y, y + 2} & rows)


def focus(browser: Browser) -> None:
    browser.run("document.querySelector('canvas.picture').focus()")
