"""What is said first of every committed run: short, and without jargon."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wording import JARGON

from xlagraph.cause.verdict import Verdict
from xlagraph.message import GraphName, Side, words
from xlagraph.ranks.explain import explain_ranks
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.model import RunExplanation

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RUNS = sorted({file.parent for file in FIXTURES.rglob("records-*.jsonl")})
MAX_FIX, MAX_WHAT = 12, 20
"""Words of a fix, and of a first line: compiles, time and cause."""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_a_run_is_told_of_in_short_and_plainly(run: Path) -> None:
    read = read_run(run)
    explained = explain_run(read)
    ranks = explain_ranks(explained)
    check_groups(explained)
    for verdict in (explained.verdict, *([ranks.verdict] if ranks and ranks.verdict else [])):
        check_verdict(verdict, is_problem=verdict is not explained.verdict or explained.has_problem)


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
    """The rules for the three lines."""
    for name, message in verdict.lines:
        own = "".join(part for part in message.parts if isinstance(part, str))
        assert JARGON.findall(own) == [], own
        letters = [part for part in message.parts if isinstance(part, (GraphName, Side))]
        assert letters == [], words(message)
        if is_problem and name != "Where":
            said = words(message)
            most = MAX_WHAT if name == "What" else MAX_FIX
            assert length(re.sub(r" of wall time, [\d.]+ \S+", "", said)) <= most, said


def length(text: str) -> int:
    """Words, a number with its unit as one."""
    return len(re.sub(r"(\d) (?=(?:ms|s|min|h)\b)", r"\1", text).split())
