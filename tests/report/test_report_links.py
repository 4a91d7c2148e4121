"""Links of the evidence, over every committed run: each lands on a difference that it cites."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from real_modules import FIXTURES, RUNS, explained_run
from report_inputs import explained, small_pair

from xlagraph.report.build import pair_report, run_report
from xlagraph.report.links import Links
from xlagraph.report.origins import origins
from xlagraph.report.pack import unpack
from xlagraph.runs.steady import comparisons

if TYPE_CHECKING:
    from pathlib import Path

    from report_browser import Browser

    from xlagraph.cause.model import Explanation

FOLDERS = sorted((*RUNS.iterdir(), *(FIXTURES / "pairs").iterdir()), key=lambda path: path.name)
PARTS = 4
"""Into how many tests the links are shared out, for several processes."""

LANDINGS = """
const [addresses, done] = arguments, found = [], { port1, port2 } = new MessageChannel();
const turn = () => new Promise((next) => { port1.onmessage = next; port2.postMessage(null); });
for (const address of addresses) {
  location.hash = address;
  while (document.body.dataset.ready !== address) await turn();  // no frame is drawn for it
  const row = document.querySelector('.row[aria-selected=true]');
  const goal = row ?? document.querySelector('.panel .hit');
  found.push([address, goal ? goal.className : '', document.getElementById('lost').hidden]);
}
done(found);
"""


@lru_cache
def _explanations(folder: Path) -> dict[str, Explanation]:
    return {one.after.letter: one.explain()[0] for one in comparisons(explained_run(folder))}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_goal_is_cited_and_differs(folder: Path) -> None:
    for explanation in _explanations(folder).values():
        links, diff = Links(explanation), explanation.diff
        differing_a = {change.a for change in diff.changes} | set(diff.removed)
        differing_b = {change.b for change in diff.changes} | set(diff.added)
        moved = {("a", s.a) for s in diff.outputs if s.a != s.b}
        moved |= {("b", s.b) for s in diff.outputs if s.a != s.b}
        moved_in = {("a", s.a) for s in diff.parameters if s.a != s.b}
        moved_in |= {("b", s.b) for s in diff.parameters if s.a != s.b}
        for evidence in (line for cause in explanation.causes for line in cause.evidence):
            cited_differ = differing_a & set(evidence.a) or differing_b & set(evidence.b)
            for view, side, number in links.goals(evidence):
                if view == "i":
                    assert number in (differing_a if side == "a" else differing_b)
                    assert number in (evidence.a if side == "a" else evidence.b)
                else:
                    assert not cited_differ, "an instruction is better evidence than a place"
                    assert (side, number) in (moved if view == "out" else moved_in)
            assert not cited_differ or links.goals(evidence)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_group_of_a_run_links_into_the_pair_that_its_evidence_is_of(folder: Path) -> None:
    explanations = _explanations(folder)
    report = run_report(explained_run(folder))
    for card in (*report.causes, *report.warm_up):
        addresses = [address for line in card.evidence for _, address in line.links]
        for pair, side, number in re.findall(r"#/pair/(\w+)/i/([ab])(\d+)", " ".join(addresses)):
            causes = explanations[pair].causes
            lines = [line for cause in causes for line in cause.evidence]
            assert any(int(number) in (line.a if side == "a" else line.b) for line in lines)
            assert (side, int(number)) in origins(explanations[pair]).rows


def test_a_growing_graph_is_shown_by_the_graph_that_its_evidence_is_of() -> None:
    growing = explained_run(FIXTURES / "pairs" / "leak_running_loss")
    (group,) = [one for one in growing.groups if one.kind.id == "growing-graph"]
    shown = next(node for node in growing.graphs if node.digest == group.shown)
    assert group.cause is not None
    assert shown.explanation is not None
    assert group.cause.evidence in [cause.evidence for cause in shown.explanation.causes]


@pytest.mark.chromium
@pytest.mark.usefixtures("no_complaints")
@pytest.mark.parametrize("start", range(PARTS))
def test_every_link_of_every_run_lands_on_a_difference(browser: Browser, start: int) -> None:
    followed = 0
    browser.resize(1440, 450)  # few rows are drawn for each link
    for folder in FOLDERS[start::PARTS]:
        report = run_report(explained_run(folder))
        browser.open(report)
        pairs = [unpack(text) for name, text in report.blobs.items() if name.startswith("pair-")]
        listed = browser.run("return [...document.querySelectorAll('.cite, .go')].map(a => a.hash)")
        assert isinstance(listed, list)
        cited = {a for p in pairs for c in p["causes"] for e in c["evidence"] for _, a in e[1]}  # type: ignore[attr-defined]
        addresses = sorted({*map(str, listed), *cited})
        landings = browser.driver.execute_async_script(
            f"(async (...arguments) => {{{LANDINGS}}})(...arguments)", addresses
        )
        for address, state, is_there in landings:
            assert is_there, f"{folder.name}: {address}"
            if "/i/" in address or "/io/" in address:
                assert {"changed", "added", "removed"} & set(state.split()), (
                    f"{folder.name}: {address}"
                )
                followed += 1
    assert followed > 50


def test_what_follows_hangs_on_an_origin_of_its_cause() -> None:
    for folder in FOLDERS:
        for explanation in _explanations(folder).values():
            found = origins(explanation)
            for row, origin in found.follows.items():
                assert origin not in found.follows
                assert found.cause[row] in (found.cause[origin], -1)
            for number in set(found.cause.values()) - {-1}:
                assert found.of_cause(number)


def test_the_origin_of_a_size_is_the_input_and_all_else_follows() -> None:
    explanation = _explanations(FIXTURES / "pairs" / "growing_sequence")["C"]
    found, a = origins(explanation), explanation.diff.a
    assert [a.names[row] for row in found.of_cause(0)] == ["p10.63"]
    assert len(found.follows) == explanation.diff.differing - 1


def test_two_origins_keep_what_follows_from_each_apart() -> None:
    found = origins(small_pair())
    names = small_pair().diff.a.names
    assert {names[row] for row in found.of_cause(0) if row >= 0} <= {"c", "extra"}
    data = unpack(pair_report(small_pair(), ("a", "b")).blobs["pair-B"])
    assert len(data["follows"]) == len(data["origins"]) == len(found.follows)  # type: ignore[arg-type]


def test_the_summary_of_the_carry_run_opens_at_its_buckets() -> None:
    report = run_report(explained("carry"))
    assert report.causes[0].address == "#/pair/E/collectives"
