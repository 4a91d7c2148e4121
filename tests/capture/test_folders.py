"""Which folder a program writes: its job's, never one that holds another job's ended run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from xlagraph.run.reader import read_run
from xlagraph.run.scratch import PREFIX

PROGRAM = """
import sys, torch, torch_xla
x = torch.ones(3, device="xla") * 2
torch_xla.sync()
print("synced", flush=True)
if sys.argv[1:] == ["wait"]:
    sys.stdin.readline()
"""
RUN = "import sys; from xlagraph.cli import main; sys.argv[0] = 'xlagraph'; main()"


@pytest.mark.torch_xla
def test_an_ended_run_is_left_alone(run_program, tmp_path):
    first = run_program(PROGRAM, XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert "holds another run" not in first.stderr
    second = run_program(PROGRAM, XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert f"run holds another run: this one goes to {tmp_path}/run-2" in second.stderr
    assert f"explain {tmp_path}/run-2" in second.stderr
    assert [len(read_run(tmp_path / name).processes) for name in ("run", "run-2")] == [1, 1]


@pytest.mark.torch_xla
def test_one_job_adds_to_its_folder(run_program, tmp_path):
    for _ in range(2):
        run_program(PROGRAM, XLAGRAPH="1", XLAGRAPH_DIR="run", XLAGRAPH_JOB="mine")
    assert len(read_run(tmp_path / "run").processes) == 2


@pytest.mark.torch_xla
def test_processes_of_no_common_job_share_a_folder_while_one_runs(
    run_program, start_program, tmp_path
):
    """As on several hosts without a launcher's identifier; a killed one runs no more."""
    running = start_program(PROGRAM, "wait", XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert running.stdout.readline() == "synced\n"
    run_program(PROGRAM, XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert len(read_run(tmp_path / "run").processes) == 2
    running.send_signal(signal.SIGKILL)
    running.communicate()
    run_program(PROGRAM, XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert len(read_run(tmp_path / "run").processes) == 2
    assert len(read_run(tmp_path / "run-2").processes) == 1


@pytest.mark.torch_xla
def test_the_command_refuses_an_ended_run(run_program, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    arguments = ("run", "-o", "run", str(program))
    assert "see: xlagraph explain" in run_program(RUN, *arguments).stderr
    before = sorted((tmp_path / "run").iterdir())
    again = run_program(RUN, *arguments, check=False)
    assert again.returncode == 2
    assert "run holds the run of another job: name a new folder" in again.stderr
    assert again.stdout == ""
    assert sorted((tmp_path / "run").iterdir()) == before


def test_a_program_without_torch_xla_is_told_so(run_program, tmp_path):
    (tmp_path / "program.py").write_text("print('done')")
    done = run_program(RUN, "run", "program.py")
    assert done.stdout == "done\n"
    assert done.stderr == "xlagraph: nothing captured: the program never imported torch_xla\n"


@pytest.mark.parametrize("program", [("nosuch.py",), ("-m", "nosuch")])
def test_a_program_that_could_not_be_started_is_told_of_by_python_alone(program, run_program):
    done = run_program(RUN, "run", *program, check=False)
    assert done.returncode != 0
    assert "nosuch" in done.stderr
    assert "nothing captured" not in done.stderr


@pytest.mark.torch_xla
def test_a_launcher_whose_children_are_captured_is_not(run_program, tmp_path):
    (tmp_path / "child.py").write_text(PROGRAM)
    (tmp_path / "launcher.py").write_text(
        "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)"
    )
    done = run_program(RUN, "run", "launcher.py")
    assert "nothing captured" not in done.stderr
    assert "see: xlagraph explain" in done.stderr


SCRATCH = """
import sys
from xlagraph.run.scratch import scratch_folder
print(scratch_folder(), flush=True)
sys.stdin.readline()
"""


def test_what_a_killed_process_left_is_deleted_and_nothing_else(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRATCH],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    folders = [process.stdout.readline() for process in processes]
    assert all(folders)
    roots = sorted(tmp_path.glob(f"{PREFIX}*"))
    assert len(roots) == 2
    for root in roots:
        os.utime(root, (time.time() - 3600,) * 2)
    killed, running = processes
    killed.kill()
    killed.communicate()
    again = subprocess.run(
        [sys.executable, "-c", SCRATCH],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout
    (left,) = tmp_path.glob(f"{PREFIX}*")
    assert folders[1].startswith(str(left))
    running.communicate("\n")
    assert not list(tmp_path.glob(f"{PREFIX}*"))


FORK = """
import os, sys
from xlagraph.run.scratch import scratch_folder
folder = scratch_folder()
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder.is_dir())
"""


def test_a_forked_child_leaves_its_parents_folders():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


CHILD = """
import os, subprocess, sys, torch, torch_xla, xlagraph
child = "import torch, torch_xla; x = torch.ones(7, device='xla') * 3; torch_xla.sync()"
with xlagraph.capture("run"):
    for k in range(3):
        x = torch.ones(k + 2, device="xla") * 2
        torch_xla.sync()
        if k == 0:
            subprocess.run([sys.executable, "-c", child], check=True)
print([name for name in os.environ if name.startswith("PT_XLA")], os.environ.get("XLA_FLAGS"))
"""


@pytest.mark.torch_xla
def test_what_a_child_compiles_is_not_taken_for_the_parents(run_program, tmp_path):
    done = run_program(CHILD)
    assert "xla_dump_to" not in done.stdout
    assert done.stdout.startswith("[] ")
    (process,) = read_run(tmp_path / "run").processes
    assert [len(sync.graphs) for sync in process.syncs] == [1, 1, 1]
    assert all(dict(graph.key)["graph_hash"] for graph in process.graphs)
