"""Death at any moment, many processes in one folder, folders that cannot be written."""

import random
import signal
import time

import pytest

from xlagraph.run.reader import read_run

pytestmark = pytest.mark.torch_xla

LOOP = """
import os, sys, torch, torch_xla
x = torch.ones(4, 4, device="xla")
torch_xla.sync()
step = 0
while True:
    y = (x * 2).sum() if step % 50 else torch.ones(step // 50 + 1, device="xla").sum()
    torch_xla.sync()
    print(step, flush=True)
    step += 1
    if len(sys.argv) > 1 and step == 20:
        exec(sys.argv[1])
"""


def test_killed_at_random_moments(start_program, tmp_path):
    moments = random.Random(0)
    processes = [start_program(LOOP, XLAGRAPH="1", XLAGRAPH_DIR="shared") for _ in range(2)]
    finished = []
    for process in processes:
        assert process.stdout.readline() == "0\n"
        time.sleep(moments.uniform(0.1, 1.0))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        finished.append(max((int(line) for line in out.split()), default=0))
    run = read_run(tmp_path / "shared")
    by_pid = {process.record.pid: process for process in run.processes}
    for process, last in zip(processes, finished, strict=True):
        syncs = by_pid[process.pid].syncs
        assert [sync.index for sync in syncs] == list(range(len(syncs)))
        assert len(syncs) >= last + 2, "a finished step is missing"
        assert by_pid[process.pid].unread_lines <= 1
        for graph in by_pid[process.pid].graphs:
            assert run.graph_text(graph.digest).startswith("HloModule")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("raise SystemError('planted')", 1),
    ],
)
def test_every_way_to_end(run_program, tmp_path, ending, code):
    done = run_program(LOOP, ending, check=False, whole_end=True, XLAGRAPH="1")
    assert done.returncode == code
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert len([sync for sync in process.syncs if sync.kind == "step"]) == 21


FORK = """
import os, torch, torch_xla
if os.fork() == 0:
    x = torch.ones(3, device="xla") * 2
    torch_xla.sync()
    raise SystemExit(0)
os.wait()
x = torch.ones(4, device="xla") * 2
torch_xla.sync()
"""


def test_fork_writes_two_files(run_program, tmp_path):
    run_program(FORK, XLAGRAPH="1")
    run = read_run(tmp_path / "xlagraph-run")
    assert [len(process.syncs) for process in run.processes] == [1, 1]
    for process in run.processes:
        assert run.graph_text(process.graphs[0].digest)
    assert len({process.record.pid for process in run.processes}) == 2


SPAWN = """
import torch, torch_xla
def work(index):
    x = torch.ones(3, device="xla") * 2
    torch_xla.sync()
if __name__ == "__main__":
    torch_xla.launch(work)
"""


def test_launch(run_program, tmp_path):
    program = tmp_path / "spawn.py"
    program.write_text(SPAWN)
    run_program(program, XLAGRAPH="1")
    syncs = [
        sync for process in read_run(tmp_path / "xlagraph-run").processes for sync in process.syncs
    ]
    assert [sync.outcome for sync in syncs if sync.outcome != "empty"] == ["compile"]


def test_next_job_takes_the_next_folder(run_program, tmp_path):
    for _ in range(2):
        run_program(
            "import torch, torch_xla; torch.ones(3, device='xla'); torch_xla.sync()", XLAGRAPH="1"
        )
    assert len(read_run(tmp_path / "xlagraph-run").processes) == 1
    assert len(read_run(tmp_path / "xlagraph-run-2").processes) == 1


def test_unwritable_folder_is_one_line(run_program, tmp_path):
    (tmp_path / "file").write_text("")
    done = run_program(LOOP, "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_DIR="file/folder")
    assert done.stderr.count("xlagraph: ") == 1
    assert "nothing is captured" in done.stderr
    assert done.stdout.split()[-1] == "19"


def test_unreadable_option_is_one_line(run_program):
    done = run_program(LOOP, "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_STEPS="soon")
    assert "nothing is captured: XLAGRAPH_STEPS" in done.stderr


def test_disk_full(run_program, tmp_path):
    full = """
import errno, os, xlagraph.run.writer as writer
real, count = os.write, [0]
def write(descriptor, data):
    count[0] += descriptor != 2
    if descriptor != 2 and count[0] > 8:
        raise OSError(errno.ENOSPC, "No space left on device")
    return real(descriptor, data)
writer.os.write = write
"""
    done = run_program(full + LOOP, "sys.exit(0)", XLAGRAPH="1")
    assert done.stdout.split()[-1] == "19"
    assert done.stderr.count("No space left") == 1
    assert read_run(tmp_path / "xlagraph-run").processes[0].syncs


def test_bound_on_bytes(run_program, tmp_path):
    run_program(LOOP.replace("20", "200"), "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_MAX_BYTES="18K")
    folder = tmp_path / "xlagraph-run"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 22_000
    (process,) = read_run(folder).processes
    assert {"limit", "dropped"} <= {note.what for note in process.notes}
    assert len([sync for sync in process.syncs if sync.outcome == "compile"]) >= 5


def test_ranks_option(run_program, tmp_path):
    run_program(LOOP, "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_RANKS="1-")
    assert not list((tmp_path / "xlagraph-run").glob("records-*"))


def test_a_url_is_written_through_a_spool(run_program, tmp_path):
    url = f"file://{tmp_path}/remote/run"
    done = run_program(LOOP, "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_DIR=url, TMPDIR=str(tmp_path))
    assert f"explain {url}" in done.stderr
    run = read_run(url)
    (process,) = run.processes
    assert len([sync for sync in process.syncs if sync.kind == "step"]) == 21
    assert run.graph_text(process.graphs[0].digest).startswith("HloModule")
    assert not list(tmp_path.glob("xlagraph-spool-*"))


def test_an_unusable_url_is_one_line(run_program):
    done = run_program(LOOP, "sys.exit(0)", XLAGRAPH="1", XLAGRAPH_DIR="nosuch://x/y")
    assert done.stderr.count("xlagraph: ") == 1
    assert "nothing is captured" in done.stderr
