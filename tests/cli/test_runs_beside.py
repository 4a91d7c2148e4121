"""Commands that know of several runs: the newest, the one before, two compared."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from command import run_xlagraph
from real_modules import ROOT

from xlagraph.run.reader import read_run
from xlagraph.run.recent import before_and_after, runs_in

RUNS = ROOT / "fixtures" / "runs"
xlagraph = partial(run_xlagraph, COLUMNS="100")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, copy in (("carry", "xlagraph-run"), ("fixed", "xlagraph-run-2")):
        shutil.copytree(RUNS / name, tmp_path / copy)
    (tmp_path / "notes").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "records-0-h-1.jsonl").write_text("not a record\n")
    return tmp_path


def test_runs_are_ordered_by_when_they_began(folder: Path) -> None:
    found = runs_in(folder)
    assert [one.path.name for one in found] == ["xlagraph-run", "xlagraph-run-2"]
    assert {one.program for one in found} == {"examples/fsdp_bucket_carry.py"}
    old, new = (read_run(one.path) for one in found)
    assert before_and_after(old) == (None, found[1])
    assert before_and_after(new) == (found[0], None)


def test_another_program_is_no_neighbour(folder: Path) -> None:
    shutil.copytree(RUNS / "demo_fixed", folder / "other")
    assert before_and_after(read_run(folder / "other")) == (None, None)


def test_explain_and_report_take_the_newest_run(folder: Path) -> None:
    done = xlagraph("explain", cwd=folder)
    assert done.returncode == 0
    assert done.stderr == "The newest run here: xlagraph-run-2\n"
    assert "was 3 compiles beyond warm-up, now none; 5.6 s saved." in done.stdout
    done = xlagraph("report", cwd=folder)
    assert done.returncode == 0
    assert (folder / "report.html").stat().st_size > 50_000
    assert "xlagraph-run-2" in done.stderr


def test_an_older_run_says_that_a_newer_exists(folder: Path) -> None:
    said = xlagraph("explain", "xlagraph-run", cwd=folder).stdout
    newest = r"not the newest of its program: that is xlagraph-run-2, begun "
    assert re.search(newest + r"\d{4}-\d\d-\d\d \d\d:\d\d UTC\.", said)
    found = json.loads(xlagraph("explain", "--json", "xlagraph-run", cwd=folder).stdout)
    assert (found["before"], found["newer"]) == ("", "xlagraph-run-2")
    found = json.loads(xlagraph("explain", "--json", "xlagraph-run-2", cwd=folder).stdout)
    assert (found["before"], found["newer"]) == ("xlagraph-run", "")
    assert "now none" in found["was"]


def test_without_any_run_the_message_says_how_to_make_one(tmp_path: Path) -> None:
    for command in ("explain", "report", "stats"):
        done = xlagraph(command, cwd=tmp_path)
        assert done.returncode == 2
        assert "no run folder here: `XLAGRAPH=1 python train.py` writes one" in done.stderr
        assert f"as in `xlagraph {command} RUN`" in done.stderr


def test_a_folder_of_runs_names_the_newest_run(folder: Path) -> None:
    done = xlagraph("explain", ".", cwd=folder)
    held = "2 runs, xlagraph-run-2 the newest: xlagraph explain xlagraph-run-2"
    assert done.stderr == f"xlagraph: .: not a run folder, but it holds {held}\n"
    shutil.rmtree(folder / "xlagraph-run-2")
    said = xlagraph("stats", str(folder), cwd=ROOT).stderr
    assert said.endswith(f"it holds xlagraph-run: xlagraph stats {folder}/xlagraph-run\n")


def test_compare_says_what_went_and_ends_with_one_if_it_is_worse(folder: Path) -> None:
    better = xlagraph("compare", "xlagraph-run", "xlagraph-run-2", cwd=folder)
    assert better.returncode == 0
    lines = better.stdout.splitlines()
    assert lines[0] == "What  Better: was 3 compiles beyond warm-up, now none; 5.6 s saved."
    assert (
        "Gone  Buckets keep gradients until the next step (bucket-carry; 3 compiles, 5.6 s)"
        in lines
    )
    assert "3 of 7 graphs are the same in both; xlagraph-run-2 has 2 more." in lines
    worse = xlagraph("compare", "--json", "xlagraph-run-2", "xlagraph-run", cwd=folder)
    assert worse.returncode == 1
    found = json.loads(worse.stdout)
    assert (found["kind"], found["worse"], found["common_graphs"]) == ("compare", True, 3)
    assert [group["kind"] for group in found["came"]] == ["bucket-carry"]
    assert found["verdict"]["fix"].startswith("Empty the bucket")
    costliest = "Costliest now: buckets keep gradients until the next step."
    assert found["verdict"]["notes"] == [costliest]
    same = xlagraph("compare", "xlagraph-run", "xlagraph-run", cwd=folder)
    assert same.returncode == 0
    assert "7 of 7 graphs are the same in both.\n" in same.stdout
    assert same.stdout.startswith("What  No better: was 3 compiles beyond warm-up, now 3.")
    assert "Still Buckets keep gradients" in same.stdout


def test_the_page_of_two_runs_shows_what_changed(folder: Path) -> None:
    done = xlagraph("report", "xlagraph-run", "xlagraph-run-2", "-o", "two.html", cwd=folder)
    assert done.returncode == 0
    assert "xlagraph-run: better: was 3 compiles beyond warm-up, now none" in done.stdout
    page = (folder / "two.html").read_text()
    assert "3 of 7 graphs are the same in both" in page
    hidden = xlagraph(
        "report", "--redact", "xlagraph-run", "xlagraph-run-2", "-o", "r.html", cwd=folder
    )
    assert hidden.returncode == 0
    assert "xlagraph-run" not in (folder / "r.html").read_text()
