"""Fills the pages of docs/gallery from kept runs: verdicts, pictures, the table.

::

    python benchmarks/gallery.py --keep DIR
    python docs/make_gallery.py DIR

Needs chromium, chromium-driver and the test extra.
"""

from __future__ import annotations

import re
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from xlagraph.runs.model import RunExplanation

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]
GALLERY = ROOT / "docs" / "gallery"
MAX_LINES, WIDTH = 28, 92


def between(path: Path, mark: str, text: str) -> None:
    """Replaces what stands between two marks of a page."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{path} has no mark {mark!r}")
    path.write_text(pattern.sub(lambda found: found[1] + text + found[2], page))


def verdict(explained: RunExplanation) -> str:
    """What ``xlagraph explain`` says of a run alone: first of all, and of its costliest cause."""
    from xlagraph.terminal.run import print_run

    screen = Console(file=StringIO(), width=WIDTH, markup=False, highlight=False, emoji=False)
    print_run(screen, explained)
    assert isinstance(screen.file, StringIO)
    head, *parts = re.split(r"\n(?=\d+\. )", screen.file.getvalue())
    cause = next(part for part in parts if not re.match(r"\d+\. warm-up", part))
    lines = [line.rstrip() for line in f"{head}\n{cause}".rstrip().splitlines()]
    packages = re.compile(r"[^\s\[]*/site-packages/")
    return "\n".join(packages.sub("", line) for line in lines[:MAX_LINES])


def main() -> None:
    """Fills every page whose program has a kept run."""
    from gallery import PROGRAMS, header, lost
    from report_browser import start

    from xlagraph.report.build import run_report
    from xlagraph.run.reader import read_run
    from xlagraph.runs.explain import explain_run

    kept = Path(sys.argv[1])
    images = GALLERY / "images"
    images.mkdir(exist_ok=True)
    rows = ["| found in | recompiles | compiles beyond warm-up | mended |\n|---|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        browser = start(Path(folder))
        browser.resize(1100, 640)
        try:
            for path in sorted(PROGRAMS.glob("[!_]*.py")):
                fields, run = header(path), kept / path.stem
                before, after = (
                    explain_run(read_run(one)) for one in (run, kept / f"{path.stem}.mended")
                )
                page = GALLERY / f"{fields['Page']}.md"
                browser.open(run_report(before))
                browser.until(lambda: browser.texts("#timeline canvas"))
                browser.driver.save_screenshot(str(images / f"{page.stem}.png"))
                text = (
                    f"Program: [{path.name}](../../examples/gallery/{path.name}). Compiles: "
                    f"{before.compiles} in {before.steps} steps, {lost(before)} of them beyond "
                    f"warm-up; mended, {after.compiles} and {lost(after)}.\n\n"
                    f"```text\n{verdict(before)}\n```\n\n"
                    f"![The report on this run](images/{page.stem}.png)\n"
                )
                between(page, "run", text)
                title = page.read_text().splitlines()[0].removeprefix("# ")
                rows.append(
                    f"| {fields['Needs']} | [{title}]({page.name}) "
                    f"| {lost(before)} of {before.compiles} | {lost(after)} of {after.compiles} |"
                )
        finally:
            browser.driver.quit()
    between(GALLERY / "README.md", "table", "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
