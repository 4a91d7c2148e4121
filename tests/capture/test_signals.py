"""A signal asks a running program for a close look at its next steps."""

import signal

import pytest

from xlagraph.capture.host.options import OptionError, options_from
from xlagraph.run.reader import read_run

PROGRAM = """
import os, signal, sys, torch
heard = []
signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
import torch_xla
x = torch.randn(4, 4, device="xla")
torch_xla.sync()
for k in range(20):
    y = torch.sin(x)
    if k == 12:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    torch_xla.sync()
print(len(heard))
"""


def looked_at(folder):
    (process,) = read_run(folder).processes
    return [sync.step for sync in process.syncs if sync.live_tensors]


@pytest.mark.torch_xla
def test_the_next_steps_are_looked_at(run_program, tmp_path):
    done = run_program(
        PROGRAM, "SIGUSR1", XLAGRAPH="1", XLAGRAPH_SIGNAL="USR1", XLAGRAPH_ARM_STEPS="3"
    )
    assert done.stdout == "1\n", "the earlier handler is called too"
    assert looked_at(tmp_path / "xlagraph-run") == [13, 14, 15]


@pytest.mark.torch_xla
def test_without_the_option_no_handler_is_set(run_program, tmp_path):
    done = run_program(PROGRAM, "SIGUSR2", check=False, XLAGRAPH="1")
    assert done.returncode == -signal.SIGUSR2
    done = run_program(
        PROGRAM, "SIGUSR2", XLAGRAPH="1", XLAGRAPH_SIGNAL="usr2", XLAGRAPH_DIR="asked"
    )
    assert done.stdout == "0\n"
    assert looked_at(tmp_path / "asked")[:1] == [13]


@pytest.mark.torch_xla
def test_a_thread_cannot_listen(run_program):
    code = """
import threading
thread = threading.Thread(target=lambda: __import__("torch_xla"))
thread.start()
thread.join()
"""
    done = run_program(code, XLAGRAPH="1", XLAGRAPH_SIGNAL="USR2")
    assert "SIGUSR2 asks for nothing: torch_xla is imported by a thread" in done.stderr


@pytest.mark.parametrize("name", ["soon", "KILL", "SIGSTOP", "9"])
def test_a_signal_that_cannot_be_used(name):
    with pytest.raises(OptionError, match="XLAGRAPH_SIGNAL: want a signal such as USR2"):
        options_from({"XLAGRAPH_SIGNAL": name})


def test_names_of_signals():
    assert options_from({}).signal is None
    for name in ("USR2", "SIGUSR2", " usr2 "):
        assert options_from({"XLAGRAPH_SIGNAL": name}).signal is signal.SIGUSR2
