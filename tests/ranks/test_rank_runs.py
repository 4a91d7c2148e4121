"""Real captures of eight ranks, as a user sees them: what is printed, the JSON, the exit code."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command import run_xlagraph
from golden import check
from real_modules import explained_run
from repository import ROOT

from xlagraph.ranks.alike import alike
from xlagraph.ranks.ended import LastStep, early_ranks
from xlagraph.ranks.explain import explain_ranks
from xlagraph.ranks.kinds import COLLECTIVE_HANG
from xlagraph.ranks.model import Outcome, Reason
from xlagraph.ranks.verdict import ranks_verdict
from xlagraph.ranks.words import alike_words, stop_words
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.terminal.advice import Shown
from xlagraph.terminal.ranks import print_ranks
from xlagraph.terminal.style import console

RUNS = ROOT / "fixtures" / "ranks"
GOLDEN = Path(__file__).parent / "golden"
CODE = re.compile(r" +>? +\d+  ")
"""A line of the program, which is not wrapped."""


def explained(name):
    found = explain_ranks(explained_run(RUNS / name))
    assert found is not None
    return found


def test_a_value_that_rank_0_alone_reads():
    found = explained("log")
    (one,) = found.divergences
    assert (one.difference.ranks, one.difference.others) == ((0,), tuple(range(1, 8)))
    assert one.difference.steps == (4, 5, 6)
    assert (one.ran, one.usual) == (("B", "A"), ("A",))
    assert one.explanation.causes[0].kind.id == "early-execution"
    assert one.explanation.proved
    assert found.has_problem
    assert found.matching.outcome is Outcome.MATCH
    assert found.matching.certain


def test_ranks_that_slice_at_their_own_number_are_reported_once():
    found = explained("index")
    assert not found.divergences
    (one,) = found.own_numbers
    assert one.ranks == tuple(range(8))
    assert (one.numbers.first, one.numbers.step, len(one.numbers.instructions)) == (0, 8, 1)
    assert not found.has_problem


def test_another_order_of_collectives_is_never_settled():
    kinds = [group.kind.id for group in explained_run(RUNS / "order").problems]
    assert "effect-order" in kinds


def test_a_rank_that_reduces_in_another_order():
    found = explained("order")
    matching = found.matching
    assert (matching.outcome, matching.reason) == (Outcome.MISMATCH, Reason.SIZE)
    assert matching.certain
    assert matching.matched  # the steps before
    assert {stop.wait.ranks for stop in found.stops} == {(7,), tuple(range(7))}
    assert {stop.wait.step for stop in found.stops} == {4}
    names = {stop.wait.ranks: [t.path for t in stop.stand.tensors] for stop in found.stops}
    assert names == {(7,): ["2.bias"], tuple(range(7)): ["0.weight"]}
    assert all(stop.stand.lines[0].file == "examples/ranks.py" for stop in found.stops)


def test_a_loss_that_rank_0_alone_reduces():
    found = explained("extra")
    assert found.matching.outcome in (Outcome.MISMATCH, Outcome.HANG)
    assert found.matching.certain
    assert any(stop.wait.ranks == (0,) for stop in found.stops)


def test_a_rank_whose_batches_are_smaller():
    (one,) = explained("shard").divergences
    assert (one.difference.ranks, one.difference.steps) == ((7,), (4, 5, 6))
    assert one.explanation.causes[0].kind.id == "input-shape"
    assert one.explanation.proved


def test_a_rank_with_a_step_less_is_waited_for():
    found = explained("fewer")
    matching = found.matching
    assert (matching.outcome, matching.reason) == (Outcome.HANG, Reason.ENDED)
    assert matching.certain
    (stop,) = found.stops
    assert (stop.wait.ranks, stop.wait.missing) == (tuple(range(7)), (7,))
    assert stop.wait.step == 6
    (one,) = found.divergences
    assert (one.difference.ranks, one.ran, one.difference.steps) == ((7,), (), (6,))
    (last,) = found.ended
    assert (last.ranks, last.step, last.line.line) == ((7,), 5, 85)
    assert found.place.line == last.loop == last.line._replace(line=71)
    told = [str(message) for _, message in found.verdict.lines]
    assert told[0] == (
        "The job hangs in step 6: rank 7 finished after step 5; ranks 0-6 wait for it."
    )
    assert told[1] == "examples/ranks.py:71 in main(): the loop that rank 7 left"
    assert "reduced(), called at examples/ranks.py:56 in lower()" in str(stop_words(stop))
    assert told[2].split("\n") == [
        "Replace line 71, or give all ranks as many steps:",
        "# n: the steps of the rank that has the fewest; the others skip the rest",
        'n = xm.mesh_reduce("n", STEPS - (MODE == "fewer" and RANK == LAST), min)',
        "for step in range(n):",
        "and import:",
        "import torch_xla.core.xla_model as xm",
    ]
    program = (RUNS.parents[1] / "examples" / "ranks.py").read_text().splitlines()
    assert program[70].startswith("    for step in range(")
    assert "reduced(parameter.grad)" in program[55]


def test_where_no_loop_was_recorded_the_end_of_the_step_is_named(tmp_path):
    """Runs that were recorded before loops were."""
    run = tmp_path / "run"
    shutil.copytree(RUNS / "fewer", run)
    for file in run.glob("records-*.jsonl"):
        file.write_text(re.sub(r',"line":\d+,"loop":\d+', "", file.read_text()))
    found = explain_ranks(explain_run(read_run(run)))
    assert found.place.line.line == 85
    assert str(found.verdict.where).endswith("rank 7 ran no further step after this line")
    assert str(found.verdict.fix).startswith("Give rank 7 as many batches")


def test_a_rank_with_fewer_steps_for_which_nobody_waits(tmp_path):
    """The same place and fix as where it hangs; here the graphs have no collectives."""
    run = tmp_path / "run"
    shutil.copytree(RUNS / "log", run)
    (file,) = run.glob("records-7-*.jsonl")
    lines = file.read_text().splitlines()
    kept = [line for line in lines if not re.search(r'"record":"sync".*"step":[56]', line)]
    assert len(kept) == len(lines) - 2
    file.write_text("\n".join(kept) + "\n")
    found = explain_ranks(explain_run(read_run(run)))
    what, end = found.divergences
    assert (what.difference.ranks, end.difference.ranks) == ((0,), (7,))
    assert (
        str(alike_words(alike([end])[0])) == "rank 7 finished after step 4; ranks 0-6 ran 7 steps"
    )
    assert str(found.verdict.what).startswith("Rank 0 ran another graph than")
    verdict = ranks_verdict(found.matching, (), found.ended, [end], {})
    assert str(verdict.what) == "Rank 7 finished after step 4; ranks 0-6 ran 7 steps."
    (at,) = [one.place for one in found.ended]
    assert str(verdict.where) == f"{at} in main(): rank 7 ran no further step after this line"
    assert str(verdict.fix).startswith("Give rank 7 as many batches as the others")


def test_the_loop_is_named_where_nobody_waits():
    found = explained("fewer")
    alone = replace(found.matching, outcome=Outcome.MATCH, reason=None, waits=())
    assert early_ranks(alone, [one.difference for one in found.divergences]) == {7}
    assert early_ranks(alone, []) == frozenset()
    verdict = ranks_verdict(alone, (), found.ended, found.divergences, {})
    assert str(verdict.what) == "Rank 7 finished after step 5; ranks 0-6 ran 7 steps."
    assert str(verdict.where) == "examples/ranks.py:71 in main(): the loop that rank 7 left"


def test_callers_tell_ranks_apart_that_stand_in_one_function():
    where = str(explained("extra").verdict.where)
    assert where == (
        "examples/ranks.py:59 in lower() (rank 0); examples/ranks.py:56 in lower() (ranks 1-7)"
    )
    assert explained("extra").place.line.line == 59
    assert str(explained("order").verdict.where) == (
        "examples/ranks.py:56 in lower(), through examples/ranks.py:49 in reduced(): "
        "both sides stand here"
    )


def test_ranks_that_end_in_different_steps_and_one_that_goes_on_without_collectives():
    found = explained("fewer")
    at = found.ended[0].line
    two = (LastStep((5, 6), 3, at), LastStep((7,), 5, at))
    verdict = ranks_verdict(found.matching, found.stops, two, (), {})
    assert "ranks 5-7 finished after steps 3, 5; ranks 0-6 wait for them" in str(verdict.what)
    assert "ranks 5-6 ran no further step after this line" in str(verdict.where)
    later = (LastStep((7,), 9, at),)
    verdict = ranks_verdict(found.matching, found.stops, later, (), {})
    assert "rank 7 has no more collectives to run" in str(verdict.what)
    assert str(verdict.fix) == COLLECTIVE_HANG.short_fix


def test_a_killed_job_is_not_said_to_end_early(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(RUNS / "fewer", run)
    (file,) = run.glob("records-7-*.jsonl")
    file.write_text("\n".join(file.read_text().splitlines()[:-1]) + "\n")
    found = explain_ranks(explain_run(read_run(run)))
    assert found.matching.outcome is Outcome.MATCH
    assert not found.matching.certain
    assert not found.divergences


@pytest.mark.parametrize("name", ["log", "index", "shard", "order", "extra", "fewer"])
def test_what_is_printed(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    screen = console()
    with screen.capture() as captured:
        print_ranks(screen, explained(name), Shown())
    check(captured.get(), GOLDEN / f"{name}.txt")
    said = [one for one in captured.get().splitlines() if not CODE.match(one)]
    assert max(map(len, said)) <= 80


def test_the_page_on_ranks_shows_what_is_printed():
    page = (ROOT / "docs" / "ranks.md").read_text()
    first = page.split("```\n")[1]
    assert first == (GOLDEN / "order.txt").read_text().split("\n\n")[0] + "\n"


def test_what_hangs_is_said_first():
    done = run_xlagraph("explain", "fixtures/ranks/order", COLUMNS="80")
    assert done.stdout.startswith("What  The job hangs or fails in step 4: all-reduce of 2.bias")
    assert ">    56      means = {name: reduced(parameter.grad)" in done.stdout


def test_json():
    done = run_xlagraph("explain", "--json", "fixtures/ranks/order")
    assert done.returncode == 1
    found = json.loads(done.stdout)["ranks"]
    assert found["world"] == 8
    assert found["named_by"] == ["RANK"]
    assert [one["rank"] for one in found["ranks"]] == list(range(8))
    assert found["problem"]
    collectives = found["collectives"]
    assert (collectives["outcome"], collectives["certain"]) == ("mismatch", True)
    assert [wait["ranks"] for wait in collectives["waits"]] == [[0, 1, 2, 3, 4, 5, 6], [7]]
    (divergence,) = found["divergences"]
    assert (divergence["ranks"], divergence["steps"]) == ([7], [4, 5, 6])
    (cause,) = divergence["causes"]
    assert cause["where"]["file"] == "examples/ranks.py"
    alone = run_xlagraph("explain", "--json", "fixtures/runs/fixed")
    assert json.loads(alone.stdout)["ranks"] is None


@pytest.mark.parametrize("name", ["log", "shard"])
def test_what_ranks_differ_in_says_in_json_where_and_what_to_change(name):
    done = run_xlagraph("explain", "--json", f"fixtures/ranks/{name}")
    (divergence,) = json.loads(done.stdout)["ranks"]["divergences"]
    cause = divergence["causes"][0]
    own = explained(name).divergences[0].explanation.causes[0]
    assert cause["what"] == str(own.title)
    assert cause["fix"] == str(own.fix)
    assert cause["in_short"]["fix"] == str(own.fix_in_short)
    where = cause["where"]
    assert (where["file"], where["line"]) == (own.place.line.file, own.place.line.line)
    assert where["file"] == "examples/ranks.py"
    assert where["function"] == own.place.line.function
    assert where["line"] in [one["line"] for one in where["source"]]
    assert cause["evidence"][0]["text"]


def test_the_order_of_hashes_changes_nothing():
    printed = {
        run_xlagraph("explain", "fixtures/ranks/order", PYTHONHASHSEED=seed).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_a_killed_rank_is_not_held_against_anybody(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(RUNS / "log", run)
    (file,) = run.glob("records-3-*.jsonl")
    lines = file.read_text().splitlines()
    last = max(k for k, line in enumerate(lines) if '"step":3' in line)
    file.write_text("\n".join(lines[: last + 1]) + "\n")
    found = explain_ranks(explain_run(read_run(run)))
    assert {rank for one in found.divergences for rank in one.difference.ranks} == {0}


def test_many_differences_of_one_rank_are_one_row_and_one_sentence():
    """A rank that reads other data than the others runs other graphs in nearly every step."""
    found = explained("shard")
    (one,) = found.divergences
    what = one.difference
    many = [
        replace(one, difference=replace(what, steps=(step,)), ran=(ran,), usual=(usual,))
        for step, ran, usual in zip(range(0, 40, 2), "BCDE" * 5, "CDEB" * 5, strict=True)
    ]
    (row,) = alike(many)
    assert (row.number, row.steps, row.ran) == (20, tuple(range(0, 40, 2)), ("B", "C", "D", "E"))
    assert str(alike_words(row)) == (
        "rank 7 ran other graphs than ranks 0-6 in 20 steps from 0 to 38: B, C, D, E for C, D, E, B"
    )
    verdict = ranks_verdict(found.matching, found.stops, found.ended, many, {})
    said = "Rank 7 ran other graphs than ranks 0-6 in 20 steps from 0 to 38."
    assert str(verdict.what) == said
    assert verdict.notes == ()
