"""A run in a bucket, explained by a Dask cluster of which one worker is killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from real_modules import FIXTURES, ROOT
from s3_server import end_store, start_store

CLUSTER = """
import asyncio, os, signal, sys, threading, time
from distributed import LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

class Lost(SchedulerPlugin):
    tasks = 0
    def remove_worker(self, scheduler, worker, **_):
        self.tasks += LOST.get(worker, 0)

LOST = {}

def kill_one(cluster):
    "Once a worker has work before it, it is killed as the kernel kills: it says nothing."
    scheduler = cluster.scheduler
    while True:
        for address, state in list(scheduler.workers.items()):
            if len(state.processing) > 1:
                LOST[address] = len(state.processing)
                os.kill(PIDS[address], signal.SIGKILL)
                return
        time.sleep(0.002)

if __name__ == "__main__":
    with LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        PIDS = {one.worker_address: one.pid for one in cluster.workers.values()}
        lost = Lost()
        cluster.scheduler.add_plugin(lost)
        print(cluster.scheduler_address, flush=True)
        if "kill" in sys.argv:
            threading.Thread(target=kill_one, args=(cluster,), daemon=True).start()
        sys.stdin.readline()
        print(lost.tasks, flush=True)
        sys.stdin.read()
"""
PUT = """
import sys, fsspec
files = fsspec.filesystem("s3")
files.put(sys.argv[1], sys.argv[2], recursive=True)
"""


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    if find_spec("distributed") is None:
        pytest.skip("needs distributed (the test extra)")
    store = start_store()
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    yield store.env | {"PYTHONPATH": path}
    end_store(store)


@pytest.fixture
def cluster(env: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator:
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    with (tmp_path / "cluster.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), *getattr(request, "param", ())],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    address = process.stdout.readline().strip()
    assert address, (tmp_path / "cluster.log").read_text()
    yield address, process
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def xlagraph(
    env: dict[str, str], *arguments: str, cwd: Path = ROOT, first: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{first}\nfrom xlagraph.cli import main; main()", *arguments],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("cluster", [("kill",)], indirect=True)
def test_a_run_in_a_bucket_by_a_cluster_that_loses_a_worker(env, cluster) -> None:
    address, process = cluster
    run = FIXTURES / "runs" / "carry"
    subprocess.run([sys.executable, "-c", PUT, f"{run}/", "s3://bucket/run/"], env=env, check=True)
    there = xlagraph(env, "explain", "s3://bucket/run", "--scheduler", address, "--json")
    assert there.stderr == ""
    process.stdin.write("\n")
    process.stdin.flush()
    assert int(process.stdout.readline()) > 0, "no task was lost"
    here = xlagraph(env, "explain", str(run), "-j", "1", "--no-cache", "--json")
    assert (there.returncode, here.returncode) == (1, 1)
    found, expected = json.loads(there.stdout), json.loads(here.stdout)
    assert found.pop("run") == "s3://bucket/run"
    assert expected.pop("run") == str(run)
    assert found.pop("newer") == ""
    del expected["newer"]  # what lies beside it in this folder
    assert found == expected


def test_ranks_are_compared_by_a_cluster(env, cluster) -> None:
    address, _ = cluster
    run = str(FIXTURES / "ranks" / "order")
    there = xlagraph(env, "explain", run, "--scheduler", address)
    here = xlagraph(env, "explain", run, "-j", "1", "--no-cache")
    assert (there.stdout, there.stderr, there.returncode) == (here.stdout, here.stderr, 1)
    assert "all-reduce of 2.bias on rank 7, of 0.weight on" in " ".join(here.stdout.split())


def test_workers_of_another_version_are_refused(env, cluster, tmp_path: Path) -> None:
    """The client has one more file: its digest of the source is another one."""
    address, _ = cluster
    other = tmp_path / "other"
    shutil.copytree(ROOT / "xlagraph", other / "xlagraph")  # its links become folders
    (other / "xlagraph" / "more.py").write_text("")
    changed = env | {"PYTHONPATH": os.pathsep.join([str(other), *filter(None, sys.path)])}
    run = str(FIXTURES / "runs" / "carry")
    done = xlagraph(changed, "explain", run, "--scheduler", address, cwd=other)
    assert done.returncode == 2
    assert "workers have another xlagraph" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_scheduler_there(env) -> None:
    run = str(FIXTURES / "runs" / "carry")
    hasty = "import xlagraph.workers.cluster as it; it.CONNECT_SECONDS = 1"
    done = xlagraph(env, "explain", run, "--scheduler", "tcp://127.0.0.1:9", first=hasty)
    assert done.returncode == 2
    assert "tcp://127.0.0.1:9: no Dask scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr
