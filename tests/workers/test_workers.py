"""Worker processes end with the command, however that ends, and say what went wrong."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import PATIENCE_SECONDS, family, is_alive, wait_for
from repository import ROOT

from xlagraph.errors import InputError, Location, Source, XlagraphError
from xlagraph.hlo import read_module
from xlagraph.limits import TooLargeError
from xlagraph.workers import local
from xlagraph.workers.crew import Crew
from xlagraph.workers.local import COLLECT_EVERY, Here, processes
from xlagraph.workers.results import WorkerError, job, results

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    raise TooLargeError(f"item {number}")


def own_number(_: int) -> int:
    return os.getpid()


def end(_: int) -> int:
    os._exit(3)


def read(text: str) -> int:
    return len(read_module(text, "bad.hlo"))


def test_results_are_those_of_the_items() -> None:
    with processes(2) as pool:
        found = dict(results(pool, 2, square, range(1, 40)))
    assert found == {k: (k + 1) ** 2 for k in range(39)}
    assert list(results(Here(), 1, square, [3, 4])) == [(0, 9), (1, 16)]
    assert list(results(Here(), 1, square, [])) == []


def test_cycles_are_given_back_where_nobody_collects_them() -> None:
    alive: list[weakref.ref[Future[int]]] = []

    def ring(_: int) -> int:
        one: Future[int] = Future()
        one.set_result(0)
        one.ring = one  # type: ignore[attr-defined]
        alive.append(weakref.ref(one))
        return 0

    gc.disable()
    try:
        here = Here()
        for k in range(3 * COLLECT_EVERY):
            here.submit(ring, k)
    finally:
        gc.enable()
    assert sum(1 for one in alive if one()) <= COLLECT_EVERY


def test_items_are_not_made_before_they_are_wanted() -> None:
    made = []

    def items():
        for k in range(1, 100):
            made.append(k)
            yield k

    found = results(Here(), 1, square, items())
    next(found)
    assert len(made) <= 3
    found.close()
    assert len(made) <= 3


def test_an_error_of_a_worker_is_the_error_here() -> None:
    with pytest.raises(TooLargeError, match=r"item [12]: holds more"), processes(2) as pool:
        list(results(pool, 2, refuse, [1, 2]))
    with pytest.raises(InputError) as caught, processes(1) as pool:
        list(results(pool, 1, read, ["HloModule m\nENTRY e {\n  what\n}\n"]))
    assert str(caught.value).startswith("bad.hlo:4:1: ")
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        XlagraphError("plain"),
        TooLargeError("file"),
        InputError("wrong", Location(Source("f", "a\nb"), 2)),
    ],
)
def test_errors_travel(error: XlagraphError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


def test_a_worker_that_is_killed_is_told() -> None:
    with pytest.raises(WorkerError, match="-j"), Crew(2) as crew:
        list(crew.results(end, [1, 2, 3], 10**9))


def test_an_interrupted_pool_complains_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own thread learns that workers were killed while cancelled work waits."""
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    kill = local._kill

    def kill_and_wait(children: set[BaseProcess]) -> None:
        kill(children)
        time.sleep(0.5)  # until the thread has seen it

    monkeypatch.setattr(local, "_kill", kill_and_wait)

    def interrupted() -> None:
        with processes(2) as pool:
            waiting = [pool.submit(time.sleep, 60) for _ in range(9)]
            wait_for(waiting[0].running)
            assert waiting[-1].cancel()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not failed


def test_workers_that_are_let_go_leave_and_others_come() -> None:
    with Crew(2) as crew:
        first = {pid for _, pid in crew.results(own_number, [1, 2, 3], 10**9)}
        crew.release()
        wait_for(lambda: not any(map(is_alive, first)))
        second = {pid for _, pid in crew.results(own_number, [1, 2, 3], 10**9)}
    assert not first & second


def test_another_version_is_refused() -> None:
    other = job(square)
    object.__setattr__(other, "version", "0.0-py3.9-0")
    with pytest.raises(WorkerError, match="here is 0"):
        other(3)


PROGRAM = """
import sys, time
from xlagraph.workers.crew import Crew

def wait(item):
    time.sleep(600)

if __name__ == "__main__":
    with Crew(3) as crew:
        print("begun", flush=True)
        list(crew.results(wait, range(1, 9), 10**9))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_command(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        wait_for(lambda: len(family(program.pid)) >= 4)  # three workers and what they come from
        below = family(program.pid)
        program.send_signal(how)
        _, errors = program.communicate(timeout=PATIENCE_SECONDS)
        assert program.returncode != 0
        if how is signal.SIGINT:
            assert errors.decode().rstrip().endswith("KeyboardInterrupt")
        wait_for(lambda: not any(map(is_alive, below)))
    finally:
        program.kill()
        program.wait()


ELSEWHERE = """
import sys
from xlagraph.version import tool_version
from xlagraph.workers.local import processes

if __name__ == "__main__":
    with processes(1) as pool:
        print(pool.submit(tool_version).result() == tool_version())
"""


def test_workers_import_what_their_parent_did_whatever_folder_it_is_in(tmp_path):
    """A folder named like the package, as in a checkout, where the command was started."""
    program = tmp_path / "bin" / "program.py"
    program.parent.mkdir()
    program.write_text(ELSEWHERE)
    (tmp_path / "xlagraph").mkdir()
    (tmp_path / "xlagraph" / "__init__.py").write_text("raise SystemExit('another package')")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
