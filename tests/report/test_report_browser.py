"""Reports of real runs in a real browser: links, search, filters, keys, hostile texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import axe_core_python
import pytest
from real_modules import RUNS
from report_inputs import LONG, explained, explained_pair, hostile_pair, small_pair, wide_run
from selenium.webdriver.common.keys import Keys

from xlagraph.cause.model import Context
from xlagraph.figures import duration
from xlagraph.report.build import pair_report, run_report
from xlagraph.report.model import ReportOptions
from xlagraph.report.moves import bucket_partners
from xlagraph.run.reader import Run, read_run
from xlagraph.runs.explain import explain_run

if TYPE_CHECKING:
    from report_browser import Browser

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("no_complaints")]

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
VIEWS = ("#/", "#/pair/E/i/b905", "#/pair/E/io", "#/pair/G/collectives", "#/pair/E/causes")


def _carry(browser: Browser, address: str = "#/") -> None:
    browser.open(run_report(explained("carry")), address)


def _search(browser: Browser, words: str) -> None:
    field = browser.one("input[type=search]")
    field.clear()
    field.send_keys(words)


def _choose(browser: Browser, label: str, value: str) -> None:
    browser.run(
        "const e = document.querySelector(`select[aria-label='${arguments[0]}']`);"
        "e.value = arguments[1]; e.dispatchEvent(new Event('change'))",
        label,
        value,
    )


def test_the_overview_says_it_first(browser: Browser) -> None:
    _carry(browser)
    assert "beyond warm-up" in browser.text("h1")
    browser.until(lambda: browser.texts("#timeline canvas"))
    problems = [group for group in explained("carry").groups if not group.expected]
    assert len(browser.texts(".card:not(.expected)")) == len(problems) > 0
    browser.click(".graphs:not([open]) summary")
    assert sorted(browser.texts(".graphs .letter")) == list("ABCDEFG")


def test_a_stable_run_has_nothing_to_fix(browser: Browser) -> None:
    browser.open(run_report(explained("fixed")))
    assert "Nothing to fix" in browser.text("#overview .empty")
    assert not browser.texts(".card:not(.expected)")
    assert browser.texts(".card.expected")


def test_steps_are_counted_alike_by_verdict_axis_and_tables(browser: Browser) -> None:
    run = explained("fixed")
    browser.open(run_report(run))
    browser.until(lambda: browser.texts("#timeline canvas"))
    last = max(node.step for node in run.graphs)
    assert run.stable_after == last
    assert f"the last in step {last};" in browser.text("h1")
    assert "Training begins at step 8." in browser.text("section .hint")
    assert str(last) in browser.texts(".graphs td.num")
    browser.run("arguments[0].focus()", browser.one("#timeline canvas"))
    browser.press(*[Keys.ARROW_RIGHT] * run.steps)
    assert browser.text("#live").startswith(f"Step {run.steps - 1}, rank 0: ")


def test_links_go_where_they_say(browser: Browser) -> None:
    _carry(browser)
    browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    name = browser.texts(".cite")[0].partition(": ")[2]
    browser.click(".cite")
    browser.until(lambda: browser.texts(".row[aria-selected=true]"))
    assert name in browser.text(".row[aria-selected=true]")
    assert name in browser.text(".detail")
    goal = browser.run("return document.querySelector('.detail ol a').hash")
    name = browser.texts(".detail ol a")[0]
    browser.click(".detail ol a")
    browser.until(lambda: f"{name} " in browser.text(".row[aria-selected=true]") + " ")
    assert browser.address == goal


def test_back_returns_to_the_row_and_to_the_overview(browser: Browser) -> None:
    browser.forget()
    _carry(browser)
    browser.go("#/pair/E/i/b905")
    browser.go("#/pair/E/io")
    browser.back("#/pair/E/i/b905")
    assert browser.texts(".row[aria-selected=true]")
    browser.back("#/")
    assert browser.one("#overview").is_displayed()


def test_an_address_that_comes_while_a_pair_is_unpacked_wins(browser: Browser) -> None:
    _carry(browser)
    browser.run(
        "addEventListener('hashchange', () => { location.hash = '#/'; }, { once: true });"
        "location.hash = '#/pair/E'"
    )
    browser.until(lambda: browser.address == "#/")
    browser.driver.execute_async_script("setTimeout(arguments[0], 500)")
    assert browser.one("#overview").is_displayed()
    assert not browser.one("#pair").is_displayed()


def test_causes_and_graphs_of_the_overview_have_addresses(browser: Browser) -> None:
    _carry(browser, "#cause-1")
    browser.until(lambda: browser.texts("#cause-1.hit"))
    browser.click("#cause-1 .letters a")
    browser.until(lambda: browser.texts("tr.hit"))
    assert browser.address == "#" + str(browser.one("tr.hit").get_attribute("id"))


def test_printing_draws_more_rows_on_light_paper(browser: Browser) -> None:
    browser.scheme("dark")
    _carry(browser, "#/pair/E")
    drawn = browser.run("return document.querySelectorAll('.row').length")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('.row').length") > drawn
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.querySelectorAll('.row').length") == drawn
    paper = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(paper) == "rgb(15, 19, 23)"
    browser.media("print")
    assert browser.run(paper) == "rgb(255, 255, 255)"
    browser.media("screen")


def test_a_deep_link_opens_folds_and_called_computations(browser: Browser) -> None:
    _carry(browser, "#/pair/E/i/a1")
    assert browser.texts(".row[aria-selected=true]")
    diff = explained_pair("carry:D", "carry:E").diff
    user = next(iter(diff.b.callees))
    browser.go(f"#/pair/E/i/b{user}")
    callee = diff.b.computations[diff.b.callees[user][0]]
    browser.until(lambda: callee.name in browser.text(".detail"))
    browser.click(".detail a", said=callee.name)
    browser.until(lambda: diff.b.names[callee.start] in browser.text(".row[aria-selected=true]"))


def test_search_and_filters(browser: Browser) -> None:
    _carry(browser, "#/pair/E")
    diff = explained_pair("carry:D", "carry:E").diff
    scattered = sum(opcode == "reduce-scatter" for opcode in diff.b.opcodes)
    _search(browser, "op:reduce-scatter")
    assert browser.text(".count") == f"{scattered} matches"
    assert len(browser.texts(".row")) == scattered
    _search(browser, "op:reduce-scatter name:nowhere")
    assert browser.text(".count") == "0 matches"
    browser.escape()
    assert browser.text(".count") == f"{diff.differing} differences"
    _choose(browser, "Kind of row", "added")
    assert browser.text(".count") == f"{len(diff.added)} matches"
    _choose(browser, "Cause", "1")
    assert int(browser.text(".count").split()[0].replace(",", "")) <= len(diff.added)
    _choose(browser, "Cause", "none")
    assert browser.text(".count") == "0 matches"


def test_the_difference_itself_is_marked(browser: Browser) -> None:
    browser.open(pair_report(small_pair(), ("a.hlo", "b.hlo")), "#/pair/B/i/a4")
    marks = browser.texts(".row[aria-selected=true] mark")
    assert marks == ["1", "2"]
    assert browser.texts(".detail mark") == ["1", "2"]
    assert browser.texts(".row.added")
    browser.press("r")
    assert "%c = f32[] constant(1)" in browser.text(".row[aria-selected=true]")
    assert "%c = f32[] constant(1)" in browser.text(".detail pre")


def test_source_and_frames_are_beside(browser: Browser) -> None:
    browser.open(pair_report(small_pair(), ("a.hlo", "b.hlo")), "#/pair/B/i/a6")
    assert "t.py:3" in browser.text(".detail")
    assert "/src/app" not in browser.text("body")
    browser.open(pair_report(small_pair(), ("a", "b"), options=ReportOptions(redact=True)))
    assert "t.py" not in browser.text("body")


def test_keys(browser: Browser) -> None:
    _carry(browser)
    browser.press("?")
    assert browser.one("#help").is_displayed()
    browser.escape()
    assert not browser.one("#help").is_displayed()
    browser.go("#/pair/E")
    browser.press("n")
    assert browser.texts(".row[aria-selected=true]:is(.changed, .added, .removed)")
    first = browser.address
    browser.press("n", "p")
    assert browser.address == first
    browser.press("j")
    assert browser.address != first
    folded = browser.run("return document.querySelector('.list').scrollHeight")
    browser.press("f")
    assert browser.run("return document.querySelector('.list').scrollHeight") > folded
    browser.press("2")
    browser.until(lambda: browser.address == "#/pair/E/io")
    browser.press("1")
    browser.until(lambda: browser.texts(".tools"))
    browser.press("/")
    browser.press("o")
    assert browser.run("return document.querySelector('input[type=search]').value") == "o"
    browser.escape()
    browser.press("t")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.press("o")
    browser.until(lambda: browser.one("#overview").is_displayed())


def test_a_fold_opens_by_click_and_by_key(browser: Browser) -> None:
    _carry(browser, "#/pair/E")
    before = len(browser.texts(".fold"))
    browser.click(".fold")
    assert browser.texts(".row:is(.same, .aside)")
    assert len(browser.texts(".fold")) < before
    browser.run(
        "document.querySelector('.list').focus(); document.querySelector('.list').scrollTop = 0"
    )
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.texts("[aria-selected=true]")


def test_tables_follow_the_match(browser: Browser) -> None:
    _carry(browser, "#/pair/E/io")
    diff = explained_pair("carry:D", "carry:E").diff
    rows = browser.texts(".map tr.added")
    new = [s for s in (*diff.parameters, *diff.outputs) if s.a is None]
    assert len(rows) == len(new)
    assert "waiting gradient" in rows[0]
    browser.click(".map a")
    browser.until(lambda: browser.texts(".row[aria-selected=true]"))


def test_equal_graphs_show_what_else_is_in_the_key(browser: Browser) -> None:
    explanation = explained_pair("carry:A", "carry:A")
    contexts = Context(key={"inputs": "1,2", "graph": "x"}), Context(key={"inputs": "1,3"})
    browser.open(pair_report(explanation, ("a", "b"), contexts))
    assert "No difference" in browser.text("#overview .empty")
    browser.go("#/pair/B/io")
    assert browser.texts(".panel td mark") == ["2", "3"]
    browser.go("#/pair/B")
    assert browser.text(".count") == "0 differences"


def test_buckets_and_their_tensors(browser: Browser) -> None:
    _carry(browser, "#/pair/G/collectives")
    explanation = explained_pair("carry:E", "carry:G")
    assert len(browser.texts(".bucket")) == len(explanation.buckets_a) + len(explanation.buckets_b)
    carried = sum(sum(row.carried) for row in (*explanation.buckets_a, *explanation.buckets_b))
    assert len(browser.texts(".bucket .chip.carried")) == carried
    assert browser.texts(".chip.alone-b")


def test_what_moved_is_drawn(browser: Browser) -> None:
    explanation = explained_pair("carry:E", "fixed:E")
    browser.open(pair_report(explanation, ("carry", "fixed")), "#/pair/B/collectives")
    forward, _ = bucket_partners(explanation)
    moved = sum(a[0] != b[0] for a, b in forward.items())
    assert moved
    browser.until(lambda: len(browser.texts(".buckets path")) == moved)
    assert browser.run("return document.querySelectorAll('.panel tbody tr').length") == moved
    assert len(browser.texts(".bucket .chip.moved")) == 2 * moved


def test_hostile_texts_stay_texts(browser: Browser) -> None:
    browser.open(pair_report(hostile_pair(), ("<script>a", "b")))
    for address in ("#/pair/B/i/b8", "#/pair/B/i/a6", "#/pair/B/io", "#/pair/B/causes"):
        browser.go(address)
    assert browser.run("return window.owned") is None
    assert browser.run("return document.images.length") == 0
    last = next(i for i, o in enumerate(hostile_pair().diff.b.opcodes) if o == "subtract")
    browser.go(f"#/pair/B/i/b{last}")
    assert len(browser.text(".row[aria-selected=true]")) < 10_000
    browser.click(".detail button", said="1,000,0")
    assert LONG in browser.text(".detail")


def test_a_wide_run_is_usable(browser: Browser) -> None:
    browser.open(run_report(wide_run(32, 500)))
    browser.until(lambda: browser.texts("#timeline canvas"))
    assert len(browser.texts("tr")) < 100
    picture = browser.one("#timeline canvas")
    browser.run("arguments[0].focus()", picture)
    browser.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert browser.text("#live").startswith("Step 0, ranks 0-31: compiled, as warm-up, graph A")


def test_the_timeline_says_times_as_all_else_does(browser: Browser) -> None:
    run = read_run(RUNS / "carry")
    (process,) = run.processes
    compiled = [sync.index for sync in process.syncs if sync.outcome == "compile"]
    seconds = (0.0123, 0.25, 0.996, 59.96, 150.0, 7200.0, 0.009)
    took = dict(zip(compiled, seconds, strict=True))
    syncs = tuple(replace(s, compile_seconds=took.get(s.index, 0.0)) for s in process.syncs)
    explained = explain_run(Run(run.name, run.path, (replace(process, syncs=syncs),)))
    browser.open(run_report(explained))
    browser.until(lambda: browser.texts("#timeline canvas"))
    browser.run("arguments[0].focus()", browser.one("#timeline canvas"))
    said = []
    for _ in syncs:
        browser.press(Keys.ARROW_RIGHT)
        said.append(browser.text("#live"))
    told = [text.split(", ") for text in said if "compiled" in text]
    assert [duration(one) in parts for parts, one in zip(told, seconds, strict=True)] == [True] * 7


def test_the_timeline_leads_to_the_pair(browser: Browser) -> None:
    _carry(browser)
    browser.until(lambda: browser.texts("#timeline canvas"))
    browser.run("arguments[0].focus()", browser.one("#timeline canvas"))
    browser.press(*[Keys.ARROW_RIGHT] * 10, Keys.ENTER)
    browser.until(lambda: browser.address == "#/pair/E/collectives")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, scheme: str, width: int) -> None:
    browser.resize(width)
    browser.scheme(scheme)
    _carry(browser)
    browser.run(AXE.read_text())
    for view in VIEWS:
        browser.go(view)
        browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        found = browser.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then(r => done(r.violations.map("
            "v => [v.id, v.impact, v.nodes[0].html, v.nodes[0].failureSummary])))"
        )
        assert not found, f"{view}: {json.dumps(found, indent=1)}"


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_hangs_over_a_narrow_screen(browser: Browser, view: str) -> None:
    browser.resize(390)
    _carry(browser, view)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
