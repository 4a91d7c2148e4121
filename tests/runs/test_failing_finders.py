"""What looks at several graphs and raises costs that look, and no more."""

from __future__ import annotations

import pytest
from real_modules import FIXTURES, explained_run

from xlagraph.errors import RuleWarning
from xlagraph.run.reader import read_run
from xlagraph.runs import account
from xlagraph.runs.explain import explain_run

RUN = FIXTURES / "pairs" / "focal_exponent"


def _raises(*_given, **_named):
    raise ValueError("not enough values")


@pytest.mark.parametrize("finder", ["pending_work", "with_early", "skipped_blocks", "group_nodes"])
def test_graphs_are_told_by_themselves_where_a_look_at_all_fails(monkeypatch, finder):
    whole = explained_run(RUN)
    monkeypatch.setattr(account, finder, _raises)
    with pytest.warns(RuleWarning, match=r"what is seen over several graphs failed .*ValueError"):
        plain = explain_run(read_run(RUN))
    assert {group.kind for group in plain.problems} == {group.kind for group in whole.problems}
    assert plain.problems[0].place.line == whole.problems[0].place.line
    told = [digest for group in plain.groups for digest in group.graphs]
    assert sorted(told) == sorted(node.digest for node in whole.graphs)
