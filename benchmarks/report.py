"""How large a report is, how long it takes to write, and how it feels in Chromium.

::

    python benchmarks/make_big.py          # once: the real big pair
    python benchmarks/report.py            # that pair, a run of 500 steps on 32 ranks, a stream log
    python benchmarks/report.py A B        # another pair, and those
    python benchmarks/report.py --streams  # only a stream log of 50,000 operators
    python benchmarks/report.py --run DIR  # only a run, such as benchmarks/make_large_run.py writes

Needs chromium and chromium-driver. Opening is timed from the request to the first drawn
rows; scrolling gives the times between frames over 200 frames of 3,000 pixels each, with
every row unfolded; searching is timed from the key to the drawn matches. The picture of a
stream log is dragged and zoomed for 200 frames each, from the whole log to single operators.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

if TYPE_CHECKING:
    from report_browser import Browser

    from xlagraph.report.model import Report

PAIR = (ROOT / "fixtures/big/fsdp64_1.hlo", ROOT / "fixtures/big/fsdp64_2.hlo")
REPEATS = 5

SCROLL = """
const done = arguments[0], list = document.querySelector('.list'), times = [];
let last = performance.now();
function frame(now) {
  times.push(now - last);
  last = now;
  list.scrollTop += 3000;
  if (times.length < 200) requestAnimationFrame(frame); else done(times.slice(1));
}
requestAnimationFrame(frame);
"""
PICTURE = """
const [how, done] = arguments, picture = document.querySelector('canvas.picture'), times = [];
const box = picture.getBoundingClientRect();
const turn = { bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: 50 };
let last = performance.now(), k = 0;
function frame(now) {
  times.push(now - last);
  last = now;
  const way = k++ < 100 ? 1 : -1;
  const wheel = how === 'zoom'
    ? { ctrlKey: true, deltaY: -18 * way } : { shiftKey: true, deltaY: 60 * way };
  picture.dispatchEvent(new WheelEvent('wheel', { ...turn, ...wheel }));
  if (times.length < 200) requestAnimationFrame(frame); else done(times.slice(1));
}
requestAnimationFrame(frame);
"""
SEARCH = """
const field = document.querySelector('input[type=search]'), start = performance.now();
field.value = arguments[0];
field.dispatchEvent(new Event('input'));
document.body.offsetHeight;
return performance.now() - start;
"""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--streams", is_flag=True)
@click.option("--run", type=click.Path(path_type=Path))
def main(files: tuple[Path, ...], run: Path | None, *, streams: bool) -> None:
    """Measures a pair, a wide run and a stream log."""
    from report_browser import start

    with tempfile.TemporaryDirectory() as folder:
        browser = start(Path(folder))
        try:
            if run:
                _run(browser, run)
                return
            if not streams:
                _pair(browser, *(files or PAIR))
                _wide(browser)
            _streams(browser)
        finally:
            browser.driver.quit()


def _pair(browser: Browser, file_a: Path, file_b: Path) -> None:
    from xlagraph.explain import explain_modules
    from xlagraph.inputs import open_module
    from xlagraph.report.build import pair_report

    a, b = open_module(str(file_a)), open_module(str(file_b))
    explanation = explain_modules(a.module, b.module)
    click.echo(f"pair of {len(a.module):,} and {len(b.module):,} instructions")
    begin = time.perf_counter()
    report = pair_report(explanation, (file_a.name, file_b.name))
    page = _written(report, begin)
    opened = [_opened(browser, page) for _ in range(REPEATS)]
    click.echo(f"  opens in {statistics.median(opened):.2f} s (worst {max(opened):.2f} s)")
    browser.press("f")
    _frames("scrolls", browser.driver.execute_async_script(SCROLL))
    _searches(browser, "op:reduce-scatter", "16384", "no such thing")


def _streams(browser: Browser) -> None:
    from report_streams import large_log, page_of

    from xlagraph.report.render import render_streams

    log = large_log(50_000)
    click.echo("stream log of 50,000 operators on 8 streams")
    begin = time.perf_counter()
    page = render_streams(page_of(log))
    took = time.perf_counter() - begin
    click.echo(f"  page of {len(page.encode()) / 1e6:.2f} MB, built in {took:.2f} s")
    begin = time.perf_counter()
    browser.show(page)
    click.echo(f"  opens in {time.perf_counter() - begin:.2f} s")
    for how in ("zoom", "drag"):
        browser.press("0")
        _frames(f"{how}s from the whole", browser.driver.execute_async_script(PICTURE, how))
    browser.press("+", "+", "+", "+", "+", "+")
    _frames("drags closer", browser.driver.execute_async_script(PICTURE, "drag"))
    _searches(browser, "copy_", "model.py:42", "no such thing")


def _frames(what: str, times: list[float]) -> None:
    times = sorted(times)
    click.echo(
        f"  {what} at {statistics.median(times):.0f} ms a frame, "
        f"99% within {times[int(len(times) * 0.99)]:.0f} ms"
    )


def _searches(browser: Browser, *texts: str) -> None:
    for words in texts:
        took = browser.run(SEARCH, words)
        click.echo(f"  searches {words!r} in {took:.0f} ms: {browser.text('.count')}")


def _opened(browser: Browser, page: str) -> float:
    begin = time.perf_counter()
    browser.show(page, "#/pair/B")
    browser.until(lambda: browser.run("return document.querySelector('.row') !== null"))
    return time.perf_counter() - begin


def _wide(browser: Browser) -> None:
    from report_inputs import wide_run

    from xlagraph.report.build import run_report

    explained = wide_run(32, 500)
    click.echo("run of 500 steps on 32 ranks")
    begin = time.perf_counter()
    _overview(browser, _written(run_report(explained), begin))


def _run(browser: Browser, folder: Path) -> None:
    from xlagraph.ranks.explain import explain_ranks
    from xlagraph.report.build import run_report
    from xlagraph.run.reader import read_run
    from xlagraph.runs.explain import explain_run

    explained = explain_run(read_run(folder))
    ranks = explain_ranks(explained)
    click.echo(f"run of {explained.steps:,} steps, {len(explained.graphs)} graphs")
    begin = time.perf_counter()
    _overview(browser, _written(run_report(explained, ranks=ranks), begin))


def _overview(browser: Browser, page: str) -> None:
    took = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        browser.show(page)
        browser.until(
            lambda: browser.run("return document.querySelector('#timeline canvas') !== null")
        )
        took.append(time.perf_counter() - begin)
    click.echo(f"  opens in {statistics.median(took):.2f} s (worst {max(took):.2f} s)")
    click.echo(f"  {browser.run('return document.documentElement.scrollHeight'):,} pixels tall")


def _written(report: Report, begin: float) -> str:
    from xlagraph.report.render import render

    page = render(report)
    took = time.perf_counter() - begin
    click.echo(f"  page of {len(page.encode()) / 1e6:.2f} MB, built in {took:.2f} s")
    return page


if __name__ == "__main__":
    main()
