"""What is said of every committed run: short, without jargon, and with figures that add up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from real_modules import explained_run
from wording import JARGON

from xlagraph.cause.verdict import Verdict
from xlagraph.message import Code, GraphName, Listing, Message, Side, words
from xlagraph.ranks.explain import explain_ranks
from xlagraph.report.graph_table import compile_rows, graph_sections
from xlagraph.report.model import ReportOptions
from xlagraph.report.vocabulary import names_for
from xlagraph.run.stats import count_run
from xlagraph.runs.model import RunExplanation

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RUNS = sorted({file.parent for file in FIXTURES.rglob("records-*.jsonl")})
MAX_FIX, MAX_WHAT = 12, 20
"""Words of a fix besides what is to be typed; of a first line: compiles, time and cause."""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_a_run_is_told_of_in_short_and_plainly(run: Path) -> None:
    explained = explained_run(run)
    ranks = explain_ranks(explained)
    check_groups(explained)
    check_figures(explained)
    for verdict in (explained.verdict, *([ranks.verdict] if ranks and ranks.verdict else [])):
        check_verdict(verdict, is_problem=verdict is not explained.verdict or explained.has_problem)


def check_figures(explained: RunExplanation) -> None:
    """What is counted in several places comes to the same everywhere."""
    groups, graphs, counted = explained.groups, explained.graphs, count_run(explained.run)
    names = names_for(ReportOptions(), (), explained.run)
    sections = graph_sections(explained, names, {})
    known = explained.compiles - explained.unseen
    assert sum(group.compiles for group in groups) == known
    assert sum(node.compiles for node in graphs) == known
    assert sum(row.compiles for part in sections for row in part.rows) == known
    listed = sum(row.compiles for row in compile_rows(explained, names))
    assert listed == explained.compiles == counted.compiles
    assert (counted.steps, counted.graphs) == (explained.steps, len(graphs))
    assert counted.compile_seconds == pytest.approx(explained.spent.rank_seconds)
    parts = (explained.lost, explained.warm_up, explained.by_design)
    told = sum(part.rank_seconds for part in parts)
    assert explained.unseen or told == pytest.approx(explained.spent.rank_seconds)


def check_groups(explained: RunExplanation) -> None:
    """No jargon in causes, and no empty pieces."""
    for group in explained.groups:
        said = [group.title, group.fix, group.fix_in_short]
        said += [one.text for one in group.cause.evidence] if group.cause else []
        said += [group.cause.proof] if group.cause else []
        for message in said:
            own = "".join(part for part in message.parts if isinstance(part, str))
            assert JARGON.findall(own) == [], own
            assert not re.search(r" in\s*,|:\s*,| {2}|(?<!\w)\(\)\s*$", words(message)), words(
                message
            )


def check_verdict(verdict: Verdict, *, is_problem: bool) -> None:
    """The rules for the three lines, and for places within notes."""
    assert not re.search(r"\bat (near|line|the step|backward)\b", words(verdict.message))
    for name, message in verdict.lines:
        own = "".join(part for part in message.parts if isinstance(part, str))
        assert JARGON.findall(own) == [], own
        letters = [part for part in message.parts if isinstance(part, (GraphName, Side))]
        assert letters == [], words(message)
        if is_problem and name != "Where":
            prose = tuple(part for part in message.parts if not isinstance(part, (Code, Listing)))
            said = words(Message(prose))
            most = MAX_WHAT if name == "What" else MAX_FIX
            assert length(re.sub(r" of wall time \([^)]*\)", "", said)) <= most, said


def length(text: str) -> int:
    """Words, a number with its unit as one."""
    return len(re.sub(r"(\d) (?=(?:ms|s|min|h)\b)", r"\1", text).split())
