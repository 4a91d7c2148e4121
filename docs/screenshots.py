"""Takes the screenshots of the README from committed captures and a committed stream log.

::

    python docs/screenshots.py

Needs chromium, chromium-driver and the test extra.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
IMAGES = ROOT / "docs" / "images"
VIEWS = {"report-run": "#/", "report-pair": "#/pair/E/i"}
"""Of the demo's report."""


def main() -> None:
    """Opens the reports of the demo and of a stream log and stores a picture of each view."""
    from report_browser import start
    from report_inputs import explained
    from report_streams import real_page

    from xlagraph.report.build import run_report
    from xlagraph.report.render import render_streams

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        browser = start(Path(folder))
        try:
            browser.resize(1280, 860)
            browser.open(run_report(explained("demo")))
            browser.until(lambda: browser.texts("#timeline canvas"))
            for name, address in VIEWS.items():
                browser.go(address)
                browser.driver.save_screenshot(str(IMAGES / f"{name}.png"))
            browser.show(render_streams(real_page("001_bug")), "#/finding/1")
            browser.driver.save_screenshot(str(IMAGES / "report-streams.png"))
        finally:
            browser.driver.quit()


if __name__ == "__main__":
    main()
