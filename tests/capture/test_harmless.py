"""Capture changes no loss, no graph hash and no compile counter."""

import json
import re

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

SCENARIOS = [
    "running_loss", "log_every_k", "momentum", "early_item", "last_batch", "python_index", "lr_one",
]  # fmt: skip


def graph_hashes(path):
    return re.findall(r"Graph Hash: (\w+)", path.read_text())


def run_scenarios(run_program, programs, tmp_path, level):
    analysis = tmp_path / f"analysis-{level}"
    done = run_program(
        programs / "scenarios.py",
        SCENARIO=",".join(SCENARIOS),
        PT_XLA_DEBUG_LEVEL="1",
        PT_XLA_DEBUG_FILE=str(analysis),
        XLAGRAPH=level,
        XLAGRAPH_HOLDERS="1",
        XLAGRAPH_DIR=str(tmp_path / f"run-{level}"),
    )
    return [json.loads(line) for line in done.stdout.splitlines()], graph_hashes(analysis)


def test_same_losses_hashes_and_counters(programs, run_program, tmp_path):
    plain, plain_hashes = run_scenarios(run_program, programs, tmp_path, "0")
    assert len(plain) == len(SCENARIOS)
    for level in ("1", "2"):
        results, hashes = run_scenarios(run_program, programs, tmp_path, level)
        assert results == plain
        assert hashes == plain_hashes
        (process,) = read_run(tmp_path / f"run-{level}").processes
        compiled = [sync for sync in process.syncs if sync.outcome == "compile"]
        assert len(compiled) == plain[-1]["UncachedCompile"]
        hits = [sync for sync in process.syncs if sync.outcome == "hit"]
        assert len(hits) == plain[-1]["CachedCompile"]
        # The user's own analysis file was read, and gave each graph its cache key.
        assert [dict(graph.key)["graph_hash"] for graph in process.graphs] == hashes
        # On a slow machine the searches use up their share of the time.
        assert {note.what for note in process.notes} <= {"looked away"}
        assert process.unread_lines == 0
        assert not list((tmp_path / f"run-{level}").glob(".dump-*"))
    assert not (tmp_path / "run-0").exists()


def test_a_failing_hook_is_told_once_and_the_program_goes_on(run_program, programs, tmp_path):
    code = (
        "import torch_xla, runpy\n"
        "import xlagraph.capture.tensors.fsdp as f, xlagraph.capture.tensors.live as l\n"
        "def bad(*a): raise RuntimeError('planted')\n"
        "l.LiveReader.read = bad\n"
        f"runpy.run_path({str(programs / 'scenarios.py')!r}, run_name='__main__')\n"
    )
    done = run_program(code, SCENARIO="momentum", XLAGRAPH="1")
    assert done.stderr.count("planted") == 1
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert sum(sync.kind == "step" for sync in process.syncs) == 7
    (note,) = process.notes
    assert note.what == "hook off"
    assert "planted" in note.detail


def test_nothing_is_kept_alive(run_program):
    code = """
import gc, weakref, torch, torch_xla
model = torch.nn.Linear(4, 4).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
seen = []
for step in range(5):
    x = torch.ones(2, 4).to("xla")
    loss = model(x).sum()
    seen += [weakref.ref(x), weakref.ref(loss)]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
    repr(loss)
del x, loss
assert [ref() for ref in seen] == [None] * len(seen), "a tensor outlived its last reference"
refs = [weakref.ref(model), weakref.ref(optimizer)]
del model, optimizer
gc.collect()
assert [ref() for ref in refs] == [None, None], "a module outlived its last reference"
print("free")
"""
    done = run_program(code, XLAGRAPH="2", XLAGRAPH_HOLDERS="1")
    assert done.stdout == "free\n"


def test_off_means_nothing_is_imported(run_program, tmp_path):
    done = run_program("import sys; print([m for m in sys.modules if 'xlagraph' in m])")
    assert done.stdout == "[]\n"
    run_program("import sys", XLAGRAPH="1")
    run_program("import sys", XLAGRAPH="0")
    assert list(tmp_path.iterdir()) == []


def test_hooks_come_out_again(run_program):
    code = """
import torch, xlagraph
before = torch.Tensor.__dict__.get("item")
with xlagraph.capture("run"):
    import torch_xla
    from xlagraph.capture import process
    hub = process.the_hub()
hub.uninstall()
assert torch_xla._XLAC._xla_step_marker.__class__.__name__ == "builtin_function_or_method"
print("out")
"""
    assert run_program(code).stdout == "out\n"


# A view outlives a sync and its base is changed in place: to ask torch_xla about such a view
# makes an output of it.
STALE = """
import torch, torch_xla
import torch_xla.debug.metrics as metrics
flat = torch.zeros(16, device="xla")
view = flat[:8]
other = torch.ones(4, 4, device="xla")
row = other[0]
torch_xla.sync()
for step in range(12):
    flat.add_(1)
    row.add_(1)
    torch_xla.sync()
    print(metrics.counter_value("UncachedCompile"), metrics.counter_value("CachedCompile"))
"""


def test_views_are_not_brought_up_to_date(run_program):
    plain = run_program(STALE)
    assert len(plain.stdout.splitlines()) == 12
    for level in ("1", "2"):
        assert run_program(STALE, XLAGRAPH=level, XLAGRAPH_HOLDERS="1").stdout == plain.stdout


INTERRUPTED = """
import os, signal, torch, torch_xla
import xlagraph.capture.tensors.live as live
read = live.LiveReader.read
def interrupted(*arguments):
    live.LiveReader.read = read
    os.kill(os.getpid(), signal.SIGINT)
    return read(*arguments)
x = torch.ones(4, device="xla")
torch_xla.sync()
live.LiveReader.read = interrupted
for step in range(40):
    y = (x * (2 + step // 20)).sum()
    try:
        torch_xla.sync()
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_capture_goes_on_after_an_interrupt(run_program, tmp_path):
    assert run_program(INTERRUPTED, XLAGRAPH="1").stdout == "interrupted\n"
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert not process.notes
    assert [sync.step for sync in process.syncs] == list(range(40))
    assert {(sync.kind, sync.entry) for sync in process.syncs} == {("step", "sync")}
