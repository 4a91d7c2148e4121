"""The data of a report: golden files for its columns, figures and rows; the cut for size."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from golden import check
from real_modules import FIXTURES, explained_run
from report_inputs import explained, small_pair, wide_run

from xlagraph.figures import duration, ranges
from xlagraph.report.build import pair_report, run_report
from xlagraph.report.model import ReportOptions, deltas
from xlagraph.report.pack import pack, unpack
from xlagraph.report.render import render
from xlagraph.report.run_model import RankRow
from xlagraph.report.timeline import merged

GOLDEN = Path(__file__).parent / "golden"


def _lines(value: Any) -> str:
    """JSON with one entry a line, so that a change shows where it is."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in value.items())
        return "{\n" + ",\n".join(parts) + "\n}"
    return json.dumps(value)


def test_a_module_in_columns() -> None:
    report = pair_report(small_pair(), ("a.hlo", "b.hlo"))
    check(_lines(unpack(report.blobs["module-B"])), GOLDEN / "module.json")


def test_a_pair_in_rows() -> None:
    data = unpack(pair_report(small_pair(), ("a.hlo", "b.hlo")).blobs["pair-B"])
    for worded in ("causes", "verdict"):  # the explanation's own tests see to its words
        del data[worded]
    check(_lines(data), GOLDEN / "pair.json")


def test_a_timeline_in_columns() -> None:
    report = run_report(explained("carry"))
    check(_lines(unpack(report.blobs["timeline"])), GOLDEN / "timeline.json")


def test_graphs_and_compiles_of_a_run() -> None:
    report = run_report(explained("carry"))
    assert report.run is not None
    sections = report.run.sections
    rows = [{**asdict(row), "summary": "", "cause": s.anchor} for s in sections for row in s.rows]
    rows += [asdict(row) for row in report.run.compiles]
    check("\n".join(json.dumps(row) for row in rows), GOLDEN / "run.jsonl")


def test_a_stable_run_has_lost_nothing() -> None:
    report = run_report(explained("fixed"))
    assert report.stable
    assert report.lost is not None
    assert report.lost.seconds == 0
    assert not report.lost.matters
    assert not report.causes
    assert report.warm_up


def test_what_is_by_design_is_no_warm_up() -> None:
    run = explained_run(FIXTURES / "pairs" / "evaluation_phase")
    report = run_report(run, ReportOptions(max_bytes=0))
    facts = {fact.label: fact.value for fact in report.facts}
    assert facts["of it for steps that differ on purpose"] == duration(run.by_design.wall_seconds)
    assert facts["of it warm-up (first compiles)"] == duration(run.warm_up.wall_seconds)
    assert run.by_design.rank_seconds + run.warm_up.rank_seconds == run.spent.rank_seconds
    assert report.run is not None
    labels = [part.expected for part in report.run.sections]
    assert sorted(labels) == ["by design", "warm-up", "warm-up"]
    times: Any = unpack(report.blobs["timeline"])
    (row,) = times["ranks"]
    assert (row["outcomes"].count("d"), row["outcomes"].count("w")) == (1, 2)
    assert "Expected: warm-up, and what is by design" in render(report)
    assert "what is by design" not in render(run_report(explained("fixed")))


@pytest.mark.parametrize(
    ("name", "number"), [("flag_branch", 0), ("momentum_late", 2), ("two_causes", 2)]
)
def test_cards_are_problems_where_the_run_says_so(name: str, number: int) -> None:
    """Not as in a comparison alone: state may come too late, a piece may be computed on purpose."""
    run = explained_run(FIXTURES / "pairs" / name)
    report = run_report(run, ReportOptions(max_bytes=1_000_000))
    assert report.pairs
    assert len(report.causes) == len(run.problems) == number
    assert len(report.warm_up) == len(run.groups) - number


def test_what_does_not_fit_is_said() -> None:
    everything = run_report(explained("carry"))
    assert not everything.cuts
    small = run_report(explained("carry"), ReportOptions(max_bytes=0))
    assert not small.pairs
    for head in everything.pairs:
        assert head.title in small.cuts[0]
    assert not any(card.address for card in small.causes)


def test_the_list_of_compiles_is_cut_for_size() -> None:
    whole = run_report(explained("carry")).run
    short = run_report(explained("carry"), ReportOptions(max_bytes=200))
    assert whole is not None
    assert short.run is not None
    assert short.run.compiles == whole.compiles[:2]
    assert "5 rows of the list of compiles" in short.cuts


def test_a_wide_run_shares_one_list_of_compiles() -> None:
    report = run_report(wide_run(32, 500))
    assert report.run is not None
    times: Any = unpack(report.blobs["timeline"])
    assert [row["label"] for row in times["ranks"]] == ["ranks 0-31"]
    assert len(times["steps"]) == 500
    assert {row.ranks for row in report.run.compiles} == {"0-31"}
    assert sum(len(text) for text in report.blobs.values()) < 1_000_000


def test_ranks_that_did_the_same_share_a_row_with_their_longest_times() -> None:
    one = RankRow("", (0, 1), "ch", (0, 0), (900, 3), ("t.py:1",))
    slow = replace(one, milliseconds=(700, 5))
    other = replace(one, outcomes="cc")
    rows = merged([one, slow, other, one], [(0, 0), (1, 0), (2, 0), (0, 1)])
    assert [row.label for row in rows] == ["ranks 0-1, rank 0 (2)", "rank 2"]
    assert rows[0].milliseconds == (900, 5)


def test_helpers() -> None:
    assert ranges([3, 1, 2, 7, 7]) == "1-3, 7"
    assert deltas((5, 7, 4)) == [5, 2, -3]
    assert deltas(()) == []
    assert unpack(pack({"a": ["</script>", "\u2028"]})) == {"a": ["</script>", "\u2028"]}


def test_the_steady_state_is_offered_first() -> None:
    first, *others = run_report(explained("carry")).pairs
    assert explained("carry").alternating == ("F", "G")
    assert explained("carry").alternating_since == min(
        node.step for node in explained("carry").graphs if node.letter == "F"
    )
    assert (first.title, first.identifier) == ("F → G", "F~G")
    assert "keep returning" in first.note
    assert not any(head.note for head in others)
