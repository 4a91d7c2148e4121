"""``XLAGRAPH_STREAMS``: which steps are recorded, where, and what happens without CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from streams.record.fake import FakeDevice

from xlagraph.capture.host.options import DEFAULT_MAX_BYTES, Numbers, OptionError
from xlagraph.streams.analyze import analyze
from xlagraph.streams.drift import drift_of
from xlagraph.streams.log import Log
from xlagraph.streams.record import steps as steps_module
from xlagraph.streams.record.session import Recording
from xlagraph.streams.record.steps import Steps, StreamOptions, free_path, options_from

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("env", "inside", "outside"),
    [
        ({"XLAGRAPH_STREAMS": "3-5"}, (3, 5), (2, 6)),
        ({"XLAGRAPH_STREAMS": "4,9-"}, (4, 9, 900), (3, 5)),
        ({"XLAGRAPH_STREAMS": "all"}, (0, 7), ()),
    ],
)
def test_steps_are_read(
    env: dict[str, str], inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    options = options_from(env)
    assert all(step in options.steps for step in inside)
    assert not any(step in options.steps for step in outside)
    assert options.max_bytes == DEFAULT_MAX_BYTES


def test_a_value_that_cannot_be_read_is_named() -> None:
    with pytest.raises(OptionError, match="XLAGRAPH_STREAMS: want numbers such as"):
        options_from({"XLAGRAPH_STREAMS": "three"})


def test_a_free_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = StreamOptions(Numbers())
    assert free_path(options) == Path("xlagraph-streams.jsonl")
    Path("xlagraph-streams.jsonl").touch()
    assert free_path(options) == Path("xlagraph-streams-2.jsonl")
    ranked = options_from({"XLAGRAPH_STREAMS": "1", "RANK": "3", "WORLD_SIZE": "8"})
    assert free_path(ranked) == Path("xlagraph-streams-rank3.jsonl")


class FakeSteps(Steps):
    """Follows optimizers with the CPU as its device."""

    def __init__(self, options: StreamOptions, monkeypatch: pytest.MonkeyPatch):
        super().__init__(options)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(
            steps_module, "Recording", lambda *given: Recording(*given, device=FakeDevice())
        )


def train(steps: Steps, count: int, between: Callable[[int], Any] = lambda _: None) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    handle = register_optimizer_step_post_hook(steps._stepped)
    try:
        for step in range(count):
            (weight * 2).sum().backward()
            between(step)
            optimizer.step()
            optimizer.zero_grad()
    finally:
        handle.remove()
        steps.end()


def test_the_steps_asked_for_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    seen: list[bool] = []
    steps = FakeSteps(StreamOptions(Numbers.parse("2-4", ""), str(log)), monkeypatch)
    train(steps, 7, lambda _: seen.append(steps.recording is not None))
    assert seen == [False, False, True, True, True, False, False]
    opened = Log.open(str(log))
    coverage = analyze(opened).coverage
    assert coverage.steps == 3
    assert coverage.began == "at step 2"
    assert coverage.stated
    assert drift_of(opened).alike == ((1, 2, 3),)
    said = capsys.readouterr().err
    assert f"next: xlagraph streams {log}" in said
    assert "steps 2-4: " in said


def test_each_range_of_steps_has_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = FakeSteps(StreamOptions(Numbers.parse("1,3", ""), str(tmp_path / "a")), monkeypatch)
    train(steps, 5)
    assert [path.name for path in steps.paths] == ["a", "a-2"]
    assert all(analyze(Log.open(str(path))).coverage.steps == 1 for path in steps.paths)


def test_a_program_that_ends_meanwhile_leaves_a_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = FakeSteps(StreamOptions(Numbers.parse("1-9", ""), str(tmp_path / "a")), monkeypatch)
    train(steps, 3)
    coverage = analyze(Log.open(str(tmp_path / "a"))).coverage
    assert coverage.whole
    assert coverage.stated
    assert coverage.steps == 2  # the third had only begun


def test_only_the_first_optimizer_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = FakeSteps(StreamOptions(Numbers.parse("9", "")), monkeypatch)
    first, second = object(), object()
    for optimizer in (first, second, second, first):
        steps._stepped(optimizer, (), {})
    assert steps.step == 2
    steps._failed = True


def run(code: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
    )


TRAIN = """
import xlagraph.streams.record.autostart, torch
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    (weight * 2).sum().backward()
    optimizer.step()
print(weight.tolist(), torch._C._len_torch_dispatch_stack())
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_a_program_without_cuda_goes_on_and_is_told(tmp_path: Path) -> None:
    plain = run(TRAIN, tmp_path, XLAGRAPH_STREAMS="")
    done = run(TRAIN, tmp_path, XLAGRAPH_STREAMS="2-3")
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert done.stderr == "xlagraph: no stream log: torch has no CUDA device\n"
    assert plain.stderr == ""
    assert not list(tmp_path.iterdir())


def test_a_program_that_never_gets_there_is_told(tmp_path: Path) -> None:
    done = run(TRAIN, tmp_path, XLAGRAPH_STREAMS="20")
    assert done.returncode == 0
    assert done.stderr == "xlagraph: no stream log: the program ended after 4 optimizer steps\n"


def test_a_wrong_value_does_not_stop_the_program(tmp_path: Path) -> None:
    done = run(TRAIN, tmp_path, XLAGRAPH_STREAMS="soon")
    assert done.returncode == 0
    assert done.stderr.startswith("xlagraph: no stream log: XLAGRAPH_STREAMS: want numbers")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_the_block_says_that_it_needs_cuda() -> None:
    import xlagraph

    with pytest.raises(RuntimeError, match="needs a CUDA device"), xlagraph.record_streams():
        pass


def test_a_recording_that_is_off_loads_nothing(tmp_path: Path) -> None:
    line = (Path(__file__).parents[3] / "xlagraph_autostart.pth").read_text()
    code = f"{line}\nimport sys; print([n for n in sys.modules if n.startswith('xlagraph')])"
    assert run(code, tmp_path, XLAGRAPH="", XLAGRAPH_STREAMS="").stdout == "[]\n"
    on = run(code, tmp_path, XLAGRAPH="", XLAGRAPH_STREAMS="3").stdout
    assert "xlagraph.streams.record.autostart" in on
    assert "torch" not in on


def test_a_forked_child_leaves_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = FakeSteps(StreamOptions(Numbers.parse("0-", ""), str(tmp_path / "a")), monkeypatch)
    steps._update()
    torch.ones(3).add_(1)
    recording = steps.recording
    assert recording is not None
    child = os.fork()
    if not child:
        steps._forked()
        torch.ones(4).mul_(2)
        steps.end()
        os._exit(0 if not recording.recorder.active else 1)
    assert os.waitpid(child, 0)[1] == 0
    steps.end()
    text = (tmp_path / "a").read_text()
    assert "add_" in text
    assert "mul_" not in text
