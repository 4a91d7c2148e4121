"""Stable steps take a short way: nothing is lost on it, and what is no such step is seen."""

import json
import re
import secrets
import signal

import pytest

from xlagraph.run.journal import journal_path
from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

HEAD = """
import os, sys, torch, torch_xla
import torch_xla.debug.metrics as metrics
x = torch.ones(4, 4, device="xla")
torch_xla.sync()
"""
STEP = """
    y = (x * 2).sum()
    torch_xla.sync()  # stable
"""


def loop(steps, before="", after=""):
    def indented(text):
        return "".join(f"\n    {line}" for line in text.splitlines())

    return f"{HEAD}\nfor step in range({steps}):{indented(before)}{STEP}{indented(after)}\n"


def only_process(folder):
    (process,) = read_run(folder).processes
    indexes = [sync.index for sync in process.syncs]
    assert indexes == list(range(len(indexes)))
    times = [sync.time for sync in process.syncs if sync.kind == "step"]
    assert times == sorted(times)
    return process


def lines_of(folder):
    (file,) = folder.glob("records-*")
    return [json.loads(line) for line in file.read_text().splitlines()]


KILL = "os.kill(os.getpid(), 9)"


def test_steps_of_a_killed_process_are_in_shared_memory(run_program, tmp_path):
    done = run_program(loop(100) + KILL, check=False, XLAGRAPH="1")
    assert done.returncode == -signal.SIGKILL
    folder = tmp_path / "xlagraph-run"
    process = only_process(folder)
    place = journal_path(process.record.journal)
    try:
        assert [sync.step for sync in process.syncs] == list(range(101))
        assert len({sync.call_site for sync in process.syncs[1:]}) == 1
        assert {sync.outcome for sync in process.syncs[5:]} == {"hit"}
        written = [line for line in lines_of(folder) if line["record"] in ("sync", "again")]
        assert len(written) < 50, "steps are written one by one"
        assert place.stat().st_size < 10_000
    finally:
        place.unlink()
    assert len(only_process(folder).syncs) == len(written)


def test_a_process_that_ends_leaves_no_shared_memory(run_program, tmp_path):
    run_program(loop(600), XLAGRAPH="1")
    folder = tmp_path / "xlagraph-run"
    process = only_process(folder)
    assert [sync.step for sync in process.syncs] == list(range(601))
    assert not journal_path(process.record.journal).exists()
    lines = lines_of(folder)
    assert lines[-1] == {"record": "end"}
    # In between some go the long way, where the size of their graph is read.
    assert 4 < len([line for line in lines if line["record"] == "sync"]) < 60


NO_SHARED_MEMORY = """
import xlagraph.capture.journal as journal
journal._is_tmpfs = lambda folder: False
"""


def test_without_shared_memory_each_step_is_written(run_program, tmp_path):
    run_program(NO_SHARED_MEMORY + loop(100) + KILL, check=False, XLAGRAPH="1")
    folder = tmp_path / "xlagraph-run"
    assert only_process(folder).record.journal == ""
    written = [line for line in lines_of(folder) if line["record"] in ("sync", "again")]
    assert len(written) == 101
    assert len([line for line in written if line["record"] == "again"]) > 50


FORK = """
if step == 60 and os.fork() == 0:
    xlagraph.capture.process.close_all()
    os._exit(0)
"""


def test_a_forked_child_tells_nothing_of_its_parent(run_program, tmp_path):
    run_program("import xlagraph.capture.process\n" + loop(100, after=FORK), XLAGRAPH="1")
    assert len(only_process(tmp_path / "xlagraph-run").syncs) == 101


def test_two_captures_hear_of_the_same_steps(run_program, tmp_path):
    program = loop(100).replace(
        "for step", 'import xlagraph\nwith xlagraph.capture("more"):\n for step'
    )
    run_program(program.replace("\n    ", "\n     "), XLAGRAPH="1")
    assert len(only_process(tmp_path / "xlagraph-run").syncs) == 101
    assert len(only_process(tmp_path / "more").syncs) == 100


def outcomes(process, start):
    return [(one.kind, one.entry, one.outcome) for one in process.syncs if one.step >= start]


READ = """
if step % 20 == 0:
    z = (x + 3).sin().cos().tan()
    z.to("cpu")
"""


def test_an_unseen_read_among_stable_steps_is_told_apart(run_program, tmp_path):
    run_program(loop(100, before=READ), XLAGRAPH="1")
    process = only_process(tmp_path / "xlagraph-run")
    reads = [sync for sync in process.syncs if sync.kind == "value"]
    assert [(sync.entry, sync.step) for sync in reads] == [
        ("unseen", 1 + step) for step in range(0, 100, 20)
    ]
    assert {sync.outcome for sync in reads[1:]} == {"hit"}
    assert {sync.outcome for sync in process.syncs if sync.step > 1} == {"hit"}
    steps = [sync for sync in process.syncs if sync.kind == "step"]
    assert [sync.step for sync in steps] == list(range(101))
    (size,) = {sync.fingerprint for sync in reads}
    assert size not in {sync.fingerprint for sync in steps[1:]}


BOTH = """
if step == 50:
    (x + 3).sum().to("cpu")
    x = torch.ones(7, device="cpu").to("xla")
"""


def test_an_unseen_read_and_a_step_that_both_compile(run_program, tmp_path):
    run_program(loop(60, before=BOTH), XLAGRAPH="1")
    folder = tmp_path / "xlagraph-run"
    process = only_process(folder)
    read, step = [sync for sync in process.syncs if sync.step == 51]
    assert read.outcome == step.outcome == "compile"
    assert (read.kind, read.entry, step.kind, step.entry) == ("value", "unseen", "step", "sync")
    assert (read.index + 1, read.step) == (step.index, step.step) == (step.index, 51)
    assert read.compile_seconds > 0.001
    assert step.compile_seconds > 0.001
    run = read_run(folder)
    (read_text,), (step_text,) = [[run.graph_text(one) for one in s.graphs] for s in (read, step)]
    assert "f32[4,4]" in read_text
    assert "f32[7]" not in read_text
    assert "f32[7]" in step_text
    assert [sync.outcome for sync in process.syncs[-8:]] == ["hit"] * 8


CLEAR = """
if step in (40, 60):
    metrics.clear_all()
    torch_xla.sync()
"""


def test_counters_may_be_cleared(run_program, tmp_path):
    done = run_program(loop(100, after=CLEAR), XLAGRAPH="1")
    assert "failed" not in done.stderr
    steps = [s for s in only_process(tmp_path / "xlagraph-run").syncs if s.kind == "step"]
    assert len(steps) == 103


ELSEWHERE = """
for step in range(60):
    y = (x * 2).sum()
    torch_xla.sync() if step % 3 else torch_xla.sync()
"""


def test_another_place_is_told_apart(run_program, tmp_path):
    run_program(loop(60) + ELSEWHERE, XLAGRAPH="1")
    process = only_process(tmp_path / "xlagraph-run")
    here, there = process.syncs[10:61], process.syncs[61:]
    assert len(there) == 60
    (first,) = {sync.call_site for sync in here}
    assert first not in {sync.call_site for sync in there}
    assert {sync.graphs for sync in here[5:] + there} == {here[0].graphs}


SIZES = """
a = torch.ones(3, 3, device="xla")
def short():
    return (x * 2).sum()
def long():
    return (a * 2).tan().sin().cos().sum()
for step in range(60):
    BEFORE
    y = long() if step == 3 or step >= 40 else short()
    torch_xla.sync()
"""


@pytest.mark.parametrize("before", ['(x + 3).tan().to("cpu")', "metrics.clear_all()"])
def test_after_an_unseen_read_the_size_of_the_graph_decides(run_program, tmp_path, before):
    run_program(HEAD + SIZES.replace("BEFORE", before), XLAGRAPH="1")
    steps = [s for s in only_process(tmp_path / "xlagraph-run").syncs if s.kind == "step"]
    assert len({sync.fingerprint for sync in steps[2:40]}) == 2
    assert len({sync.fingerprint for sync in steps[41:]} | {steps[4].fingerprint}) == 1
    assert steps[-1].fingerprint != steps[-30].fingerprint


HELPER = """
def finish():
    torch_xla.sync()
def train():
    y = (x * 2).sum(); finish()
def evaluate():
    y = (x * 3).cos(); finish()
for step in range(120):
    train() if step // 30 % 2 else evaluate()
"""


def test_one_helper_function_of_two_callers(run_program, tmp_path):
    run_program(HEAD + HELPER, XLAGRAPH="1")
    steps = only_process(tmp_path / "xlagraph-run").syncs[1:]
    callers = [sync.call_site[1].function for sync in steps]
    assert callers == (["evaluate"] * 30 + ["train"] * 30) * 2


RAISE = """
if step == 60:
    z = torch.ones(5, device="xla").cos()
    fail = True
    try:
        torch_xla.sync()
    except RuntimeError as error:
        print(error)
"""
PLANT = """
import xlagraph.capture.steps.hub as hub
install = hub.Hub.install
def planted(self):
    original = self._xlac._xla_step_marker
    def marker(*arguments, **options):
        result = original(*arguments, **options)
        if globals().pop("fail", False):
            raise RuntimeError("planted")
        return result
    self._xlac._xla_step_marker = marker
    install(self)
hub.Hub.install = planted
"""


def test_a_step_that_raises_is_that_step(run_program, tmp_path):
    program = PLANT + loop(100, after=RAISE)
    done = run_program(program, XLAGRAPH="1")
    assert done.stdout == "planted\n"
    process = only_process(tmp_path / "xlagraph-run")
    assert {sync.kind for sync in process.syncs} == {"step"}
    assert [sync.step for sync in process.syncs] == list(range(102))
    assert process.syncs[62].outcome == "compile"


GONE = """
import xlagraph.capture.session as session
import xlagraph.capture.journal as journal
journal.secrets.token_hex = lambda size: "{token}"
def refuse(*arguments):
    print("made:", journal.journal_path("{token}").exists())
    raise OSError(28, "planted: no space")
session.RunWriter = refuse
torch_xla.sync()
y = x * 2
torch_xla.sync()
"""


def test_a_folder_that_is_gone_leaves_no_shared_memory(run_program):
    token = secrets.token_hex(16)  # other tests have shared memory of theirs meanwhile
    program = HEAD.replace("torch_xla.sync()", GONE.replace("{token}", token))
    done = run_program(program, XLAGRAPH="1")
    assert len(re.findall("failed and is now off", done.stderr)) == 1
    assert done.stdout == "made: True\n"
    assert not journal_path(token).exists()
