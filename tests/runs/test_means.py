"""A run is explained alike by any means: workers, cache, damaged cache, no cache."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from real_modules import FIXTURES, RUNS, explained_run

from xlagraph.canon.labels import Level
from xlagraph.cause.model import Context, Explanation
from xlagraph.explain.modules import explain_sides
from xlagraph.hlo import read_module
from xlagraph.ranks.explain import explain_ranks
from xlagraph.run import places
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.pairs import tasks
from xlagraph.runs.pairs.outcome import explanation_of, outcome_of
from xlagraph.runs.pairs.work import Means, Progress, silent
from xlagraph.terminal.structured import run_json
from xlagraph.workers import crew
from xlagraph.workers.crew import Crew


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(RUNS / "carry", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def small_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MIN_INSTRUCTIONS", 0)


def explained(
    run: Path, jobs: int = 1, *, cached: bool = False, progress: Progress = silent
) -> str:
    with Crew(jobs) as workers:
        means = Means(workers, cached, progress)
        found = explain_run(read_run(run), means)
        return json.dumps(run_json(found, explain_ranks(found, means)), indent=1)


def entries(run: Path) -> list[Path]:
    return sorted((run / "cache").rglob("*.json.zst"))


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_find_the_same(run: Path, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "WORTH_IT", 0)
    assert explained(run, jobs=jobs) == explained(run)


def test_small_graphs_leave_no_cache(run: Path) -> None:
    explained(run, cached=True)
    assert not (run / "cache").exists()


@pytest.mark.usefixtures("small_is_kept")
def test_what_is_in_the_cache_is_not_worked_out_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = explained(run, cached=True)
    assert first == explained(run)
    assert {file.name.split("-")[0] for file in entries(run)} == {"sketch", "pair"}
    monkeypatch.setattr(tasks, "explain_sides", None)
    monkeypatch.setattr(tasks, "read_stored", None)
    assert explained(run, cached=True) == first


@pytest.mark.usefixtures("small_is_kept")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("order", {"sketch", "pair", "stand"}),
        ("index", {"sketch", "pair", "ranks"}),
        ("shard", {"sketch", "pair"}),
    ],
)
def test_ranks_are_compared_by_workers_and_from_the_cache(
    tmp_path: Path, name: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / name
    shutil.copytree(FIXTURES / "ranks" / name, run)
    here = explained(run)
    with monkeypatch.context() as many:
        many.setattr(crew, "WORTH_IT", 0)
        assert explained(run, 2) == here
    assert explained(run, cached=True) == here
    assert {file.name.split("-")[0] for file in entries(run)} == kinds
    monkeypatch.setattr(tasks, "explain_sides", None)
    monkeypatch.setattr(tasks, "read_stored", None)
    assert explained(run, cached=True) == here


@pytest.mark.usefixtures("small_is_kept")
def test_a_damaged_entry_is_written_again(run: Path) -> None:
    first = explained(run, cached=True)
    whole = {file: file.read_bytes() for file in entries(run)}
    for k, (file, data) in enumerate(whole.items()):
        middle = len(data) // 2
        damaged = [
            data[:middle],
            b"",
            data[:middle] + b"\xff\x00" + data[middle + 2 :],
            b"\x00" * 9,
        ]
        file.write_bytes(damaged[k % 4])
    assert explained(run, cached=True) == first
    assert {file: file.read_bytes() for file in entries(run)} == whole


@pytest.mark.usefixtures("small_is_kept")
def test_an_entry_in_the_place_of_another_is_not_taken(run: Path) -> None:
    first = explained(run, cached=True)
    pairs = [file for file in entries(run) if file.name.startswith("pair")]
    texts = [file.read_bytes() for file in pairs]
    for file, text in zip(pairs, texts[1:] + texts[:1], strict=True):
        file.write_bytes(text)
    assert explained(run, cached=True) == first


@pytest.mark.usefixtures("small_is_kept")
def test_a_folder_that_cannot_be_written(run: Path) -> None:
    (run / "cache").write_text("a file where the folder would be")
    assert explained(run, cached=True) == explained(run)
    assert (run / "cache").read_text() == "a file where the folder would be"


@pytest.mark.usefixtures("small_is_kept")
def test_what_a_capture_knows_belongs_to_the_entry(run: Path) -> None:
    """Other records of the same graphs: another explanation, not the one that is kept."""
    explained(run, cached=True)
    before = len(entries(run))
    (records,) = run.glob("records-*.jsonl")
    records.write_text(records.read_text().replace('"graph_hash"', '"other_hash"'))
    again = explained(run, cached=True)
    assert again == explained(run)
    assert len(entries(run)) > before


def test_progress_is_told(run: Path) -> None:
    told: list[tuple[str, int, int]] = []
    explained(run, progress=lambda *one: told.append(one))
    assert [one for one in told if one[0] == "reading graphs"][-1][1:] == (7, 7)
    assert told[-1][1] == told[-1][2]


def test_a_place_puts_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = places.place(str(tmp_path))
    here.write("a/b", b"first")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        here.write("a/b", b"second")
    assert here.read("a/b") == b"first"
    assert here.names("a") == ["b"]
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b"]
    assert here.read("a/c") is None
    assert here.names("none") == []


@pytest.mark.parametrize("name", ["runs/carry", "pairs/two_causes", "pairs/python_index"])
def test_a_pair_is_compared_again_but_not_explained_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = explained_run(FIXTURES / name)
    nodes = {node.digest: node for node in run.graphs}
    pairs = [(nodes[node.nearest], node) for node in run.graphs if node.nearest]
    numbers = {node.digest: k for k, node in enumerate(run.graphs)}
    whole = [
        tasks.explain_fully(*(run.pairs.side(numbers[node.digest]) for node in pair)).named(
            *(node.letter for node in pair)
        )
        for pair in pairs
    ]
    monkeypatch.setattr(tasks, "explain_sides", None)
    for pair, expected in zip(pairs, whole, strict=True):
        assert_same(run.explain(*pair)[0], expected)


def test_a_pair_that_was_paired_by_shape_is_compared_again_like_that() -> None:
    """Keys of another type than JAX's, so that no generator of keys is seen in them."""
    texts = (FIXTURES / "module_pairs" / f"key_width.{side}.hlo.gz" for side in "ab")
    a, b = (
        read_module(gzip.decompress(one.read_bytes()).decode().replace("u32[", "s32["))
        for one in texts
    )
    nothing = Context()
    expected = explain_sides(a, b, nothing, nothing)
    assert expected.level is Level.SHAPES
    outcome = outcome_of(expected, nothing, nothing)
    assert_same(explanation_of(outcome, a, b, nothing, nothing), expected)


def assert_same(found: Explanation, expected: Explanation) -> None:
    """Compares all but the modules."""
    for field in fields(expected):
        if field.name != "diff":
            assert getattr(found, field.name) == getattr(expected, field.name), field.name
    for field in fields(expected.diff):
        if field.name != "match":
            same = getattr(found.diff, field.name) == getattr(expected.diff, field.name)
            assert same, field.name
    assert found.diff.match.to_b == expected.diff.match.to_b
    assert found.unexplained_share == expected.unexplained_share
