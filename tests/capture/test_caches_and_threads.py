"""torch_xla's persistent cache, and programs with several threads."""

import json

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

CACHED = """
import json, torch, torch_xla
import torch_xla.debug.metrics as met
x = torch.ones(4, 4, device="xla")
torch_xla.sync()
for k in range(4):
    y = torch.sin(x)
    torch_xla.sync()
print(json.dumps({name: met.counter_value(name) for name in met.counter_names()}))
"""

# What a device's client does that can read executables back, which that of the CPU cannot.
LOADS = CACHED.replace(
    "for k",
    """import xlagraph.capture.process as process
counters = process.the_hub().counters
value = counters.value
counters.value = lambda name: 1 if name == "PersistentCacheHit" else value(name)
for k""",
)


def counted(done):
    return json.loads(done.stdout.splitlines()[-1])


def outcomes(process, outcome):
    return [sync for sync in process.syncs if sync.outcome == outcome]


def test_a_second_process_records_what_it_compiled_and_what_it_loaded(run_program, tmp_path):
    cache = str(tmp_path / "cache")
    runs = []
    for folder in ("first", "second"):
        done = run_program(
            CACHED, XLAGRAPH="1", XLAGRAPH_DIR=folder, XLA_PERSISTENT_CACHE_PATH=cache
        )
        (process,) = read_run(tmp_path / folder).processes
        counters = counted(done)
        assert len(outcomes(process, "compile")) == counters.get("UncachedCompile", 0)
        assert len(outcomes(process, "hit")) == counters["CachedCompile"]
        loaded = counters.get("PersistentCacheHit", 0)
        assert [note.what for note in process.notes] == ["persistent cache"] * bool(loaded)
        runs.append((process, counters))
    # The key of the cache is that of the run before: capture's private folders are not in it.
    second = runs[1][1]
    assert second.get("PersistentCacheMiss", 0) == 0
    assert second.get("PersistentCacheHit", 0) + second.get("PersistentCacheDeserializeFailure", 0)


def test_hits_are_not_named_once_graphs_came_from_the_cache(run_program, tmp_path):
    run_program(LOADS, XLAGRAPH="1", XLAGRAPH_ARM_STEPS="0")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert [note.what for note in process.notes] == ["persistent cache"]
    hits = outcomes(process, "hit")
    assert len(hits) == 3
    assert not any(hit.graphs for hit in hits)


THREADS = """
import json, torch, torch_xla
import torch_xla.debug.metrics as met
import torch_xla.runtime
STEPS = 12
def work(index):
    x = torch.ones(4, 4 + torch_xla.runtime.global_ordinal(), device="xla")
    torch_xla.sync()
    for _ in range(STEPS):
        y = torch.sin(x)
        torch_xla.sync()
if __name__ == "__main__":
    torch_xla.launch(work)
    if torch_xla._XLAC._xla_counter_value("CachedCompile"):
        print(json.dumps({name: met.counter_value(name) for name in met.counter_names()}))
"""


def test_two_device_threads_in_one_process(run_program, tmp_path):
    program = tmp_path / "threads.py"
    program.write_text(THREADS)
    run_program(program, XLAGRAPH="1", CPU_NUM_DEVICES="2")
    processes = read_run(tmp_path / "xlagraph-run").processes
    (process,) = [one for one in processes if one.syncs]
    assert process.unread_lines == 0
    assert not process.notes
    assert [sync.index for sync in process.syncs] == list(range(len(process.syncs)))
    assert {sync.rank for sync in process.syncs} == {0, 1}
    for rank in (0, 1):
        mine = [sync for sync in process.syncs if sync.rank == rank and sync.kind == "step"]
        assert [sync.step for sync in mine] == list(range(len(mine)))
        assert len(mine) >= 13
    # Overlapping syncs share the counters: what cannot be told is unknown, never a wrong compile.
    compiles = outcomes(process, "compile")
    unknown = outcomes(process, "unknown")
    assert len(compiles) <= 4 <= len(compiles) + len(unknown)


# Closures that log run in a thread of torch_xla's own, while the next step is traced and synced.
LOGGING = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
w = torch.ones(64, 64, device="xla")
torch_xla.sync()
logged = []
def log(step, loss):
    for _ in range(20):
        logged.append((step, loss.item()))
for step in range(120):
    x = torch.ones(90 if step == 80 else 32, 64, device="xla")
    for _ in range(24):
        x = torch.tanh(x @ w)
    xm.add_step_closure(log, args=(step, x.sum()), run_async=True)
    torch_xla.sync()  # step
"""


def test_a_thread_that_logs_computed_losses_runs_nothing(run_program, tmp_path):
    run_program(LOGGING, XLAGRAPH="1")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert {(one.kind, one.entry) for one in process.syncs} == {("step", "sync")}
    assert [one.step for one in process.syncs] == list(range(121))
    assert [one.step for one in outcomes(process, "compile")] == [0, 1, 81]
    assert len(outcomes(process, "hit")) == 118
