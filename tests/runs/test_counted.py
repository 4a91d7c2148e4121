"""A step that is cut where a mask's elements are counted has nothing that could be read later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from real_modules import FIXTURES, explained_run

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine, say
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.runs.read_sizes import with_counts

READ = say(EARLY_EXECUTION.fix)


@pytest.mark.parametrize("has_cause", [True, False])
@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("hard = loss[loss > self.thresh]", "torch.where(mask, x, 0)"),
        ("rows = mask.nonzero()", "weighted by the mask"),
        ("seen = torch.unique(ids)", "unique on the host"),
        ("total += loss.item()", ""),
    ],
)
def test_what_counts_elements_is_mended_by_keeping_all(text: str, fix: str, has_cause: bool):
    run = explained_run(FIXTURES / "pairs" / "label_dtype")
    line = SourceLine("t.py", 7, "step")
    cause = replace(run.problems[0].cause, fix=READ, short_fix=READ) if has_cause else None
    group = replace(run.problems[0], kind=EARLY_EXECUTION, cause=cause, place=Place(line))
    (told,) = with_counts([group], ProgramText({"t.py": {7: text}}))
    if fix:
        assert fix in str(told.fix_in_short)
        assert "is counted there" in str(told.title)
    else:
        assert told is group
    (warm,) = with_counts([replace(group, expected=True)], ProgramText({"t.py": {7: text}}))
    assert "is counted there" not in str(warm.title)
