"""Ctrl-C in the middle of `explain -j 2`: one line, exit code 130, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import family, is_alive, wait_for
from repository import ROOT

from xlagraph.run.records import FORMAT_VERSION, GraphRecord, ProcessRecord, SyncRecord
from xlagraph.run.writer import RunWriter
from xlagraph.runs.graphs.sketch import Sketch
from xlagraph.runs.pairs.cache import SUFFIX, unpacked
from xlagraph.runs.pairs.outcome import Outcome
from xlagraph.workers.crew import WORTH_IT

GRAPHS = 30
INSTRUCTIONS = 6_000
EXPLAIN = "from xlagraph.cli import main; main()"


def graph(number: int) -> bytes:
    """A chain with a constant of its own; large enough for the cache."""
    lines = [f"v{k + 1} = f32[64] multiply(v{k}, b)" for k in range(INSTRUCTIONS)]
    head = f"v0 = f32[64] parameter(0)\n c = f32[] constant({number})\n"
    head += "b = f32[64] broadcast(c), dimensions={}\n"
    body = head + "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return f"HloModule m\nENTRY e {{\n{body}\n}}\n".encode()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    record = ProcessRecord(FORMAT_VERSION, 0, 1, "host", 1, 1.0, (), 1, ())
    writer = RunWriter(folder, record, 1 << 30)
    size = 0
    for step in range(GRAPHS):
        text = graph(step)
        size += len(text)
        digest = writer.store_graph(text)
        writer.write(
            SyncRecord(
                index=step, step=step, rank=0, time=float(step), seconds=0.1, kind="step",
                entry="sync", outcome="compile", compile_seconds=1.0, graphs=(digest,),
                graph_is_inferred=False, fingerprint=(step,), call_site=(), live_tensors=(),
                buckets=(),
            )
        )  # fmt: skip
        writer.write(GraphRecord(digest, step, "m", len(text), (), (), ()))
    writer.close()
    assert size > WORTH_IT
    return folder


def kept(run: Path, kind: str) -> list[Path]:
    return [file for file in (run / "cache").rglob(f"{kind}-*{SUFFIX}") if file.name[0] != "."]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("kind", ["sketch", "pair"])
def test_ctrl_c_in_the_middle(run: Path, kind: str) -> None:
    """While graphs are read, and while pairs are explained."""
    program = subprocess.Popen(
        [sys.executable, "-c", EXPLAIN, "explain", str(run), "-j", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        wait_for(lambda: kept(run, kind) or program.poll() is not None)
        below = family(program.pid)
        assert len(below) >= 3, "two workers and the process that they come from"
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
        said, errors = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()
    assert (program.returncode, said) == (130, "")
    assert errors.strip().splitlines()[-1] == "xlagraph: interrupted"
    assert "Traceback" not in errors
    wait_for(lambda: not any(map(is_alive, below)))
    files = [file for file in (run / "cache").rglob("*") if file.is_file()]
    assert 0 < len(files) < 2 * GRAPHS - 1
    for file in files:
        key = file.name.removesuffix(SUFFIX)
        cls = {"sketch": Sketch, "pair": Outcome}[key.partition("-")[0]]
        assert unpacked(file.read_bytes(), key, cls), f"{file.name} is not whole"


def test_what_was_half_written_is_taken_away(tmp_path: Path) -> None:
    from xlagraph.run.places import place

    here = place(str(tmp_path))
    here.write("cache/v/whole.json.zst", b"x")
    partial = tmp_path / "cache" / "v" / f".pair-1.json.zst.{'0' * 32}"
    other = partial.with_name(".profile")
    for file in (partial, other):
        file.write_bytes(b"half")
    here.tidy("cache/v")
    assert {file.name for file in partial.parent.iterdir()} == {"whole.json.zst", ".profile"}
