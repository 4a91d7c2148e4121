"""Inputs that are too large, or no files: a clear error in bounded time and memory."""

import gzip
import json
import os
import random
import re
import resource
import subprocess
import sys
import threading

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.canon import literals
from xlagraph.run.files import unfold

MB = 1 << 20
MODULE = "HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"


def run(folder, *arguments, addresses=1 << 30, **options):
    """The command, which may take so many bytes of addresses."""
    return subprocess.run(
        [sys.executable, "-c", "from xlagraph.cli import main; main()", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (addresses,) * 2),
        **options,
    )


def refused(done, *said):
    assert done.returncode == 2, done.stderr[-500:]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for one in said:
        assert one in done.stderr


@pytest.fixture
def a_run(tmp_path):
    """A run folder whose graph is what the test stores under ``0123456789abcdef``."""
    folder = tmp_path / "run"
    (folder / "graphs").mkdir(parents=True)
    records = [
        {"record": "process", "format": 3, "host": "h", "pid": 1, "argv": ["x"], "level": 1},
        {"record": "sync", "index": 0, "kind": "step", "outcome": "compile"},
        {"record": "graph", "sync": 0, "digest": "0123456789abcdef", "module": "m"},
        {"record": "note", "what": "no graph", "detail": "esc \x1b[31m bidi \u202e end"},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "records-0-h-1.jsonl").write_text(lines)
    return folder


def zeros_of(size):
    """A zstd frame of so many zero bytes, which it declares: 131 kB for 4 GiB."""
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # run-length
    last = bytes([block[0] | 1]) + block[1:]
    count = size >> 17
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + block * (count - 1) + last


def test_the_frame_of_zeros_is_one():
    assert unfold(zeros_of(MB), "zeros") == bytes(MB)
    with pytest.raises(zstandard.ZstdError):
        unfold(zeros_of(MB)[:-1], "cut")


def test_a_stored_graph_that_says_it_is_large(a_run):
    graph = a_run / "graphs" / "0123456789abcdef.hlo.zst"
    graph.write_bytes(zeros_of(4 << 30))
    assert graph.stat().st_size < 132_000
    for command in (("explain", a_run), ("report", a_run, "-o", "r.html"), ("canon", f"{a_run}:A")):
        done = run(a_run.parent, *command)
        refused(done, graph.name, "holds more than 4,000,000,000 bytes, the limit; --max-input")


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd", "standard input"])
def test_a_file_that_holds_more_than_the_limit(tmp_path, form):
    path = tmp_path / "large.hlo"
    data = MODULE.encode() + b" " * (2 * MB)
    data = {"gzip": gzip.compress, "zstd": zstandard.compress}.get(form, bytes)(data)
    path.write_bytes(data)
    name = "-" if form == "standard input" else path.name
    options = {"input": data.decode()} if name == "-" else {}
    done = run(tmp_path, "canon", name, "--max-input", "1M", **options)
    refused(done, "holds more than 1,048,576 bytes, the limit; --max-input raises it")
    options = {"input": data.decode()} if name == "-" else {}
    done = run(tmp_path, "canon", name, "--max-input", "3M", **options)
    assert done.returncode == 0
    assert "parameter(0)" in done.stdout


def test_a_bomb_below_the_limit_takes_its_own_size(tmp_path):
    """150 MB of spaces: their map and their text, no more."""
    with gzip.open(tmp_path / "bomb.gz", "wb", 1) as file:
        file.write(MODULE[:-2].encode())
        for _ in range(150):
            file.write(b" " * MB)
    done = run(tmp_path, "canon", "bomb.gz", addresses=450 * MB)
    refused(done, "expected '}' at the end of the computation")


@pytest.mark.parametrize("text", ["1.5X", "-1", "", "lots"])
def test_the_limit_is_a_number_of_bytes(tmp_path, text):
    refused(run(tmp_path, "canon", "x", "--max-input", text), "want bytes such as 512M or 8G")


def test_every_command_that_reads_has_the_limit(tmp_path):
    for command in ("canon", "diff", "explain", "export", "list", "report", "stats"):
        assert "--max-input BYTES" in run(tmp_path, command, "--help").stdout, command


def test_a_pipe_that_nobody_writes_to(tmp_path, a_run):
    os.mkfifo(tmp_path / "pipe")
    refused(run(tmp_path, "canon", "pipe"), "pipe: cannot be read: a pipe that nobody writes to")
    os.mkfifo(a_run / "records-1-h-2.jsonl")
    for command in ("stats", "explain"):
        refused(run(tmp_path, command, "run"), "records-1-h-2.jsonl", "not a regular file")
    (a_run / "records-1-h-2.jsonl").unlink()
    os.mkfifo(a_run / "graphs" / "0123456789abcdef.hlo.zst")
    refused(run(tmp_path, "canon", "run:A"), "0123456789abcdef.hlo.zst", "not a regular file")


def test_a_pipe_that_somebody_writes_to_late(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Timer(1, lambda: (tmp_path / "pipe").write_text(MODULE))
    writer.start()
    done = run(tmp_path, "canon", "pipe")
    writer.join()
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_run_says_of_itself_is_escaped(a_run):
    done = run(a_run.parent, "stats", a_run)
    assert done.returncode == 0
    assert r"esc \x1b[31m bidi \u202e end" in done.stdout.replace("\\x202e", "\\u202e")
    assert all(c.isprintable() or c in "\n\t" for c in done.stdout)


def test_a_large_constant_takes_a_few_times_its_text(tmp_path):
    """10 MB; as a list of words it took 400 MB."""
    count = 2_000_000
    text = MODULE.replace("f32[] parameter(0)", f"f32[{count}] constant({{VALUES}})")
    for name, last in (("a", "2"), ("b", "3")):
        (tmp_path / name).write_text(text.replace("VALUES", "1.5, " * (count - 1) + last))
    done = run(tmp_path, "diff", "a", "b", addresses=350 * MB)
    assert done.returncode == 1, done.stderr[-300:]
    assert "constant" in done.stdout


WORDS = {
    "f32": ["1.5", "-0", "0", "1e-3", "inf", "-inf", "3.14159274", "1e39"],
    "f64": ["1.5", "-0", "0", "nan", "-nan(0x7)", "1e-3", "inf"],
    "bf16": ["1.5", "0", "nan", "2"],
    "s32": ["1", "0", "-7"],
    "pred": ["0", "1"],
}


@given(st.data(), st.sampled_from(sorted(WORDS)))
def test_a_large_array_is_spelled_as_a_small_one_without_its_rows(data, kind):
    rows = data.draw(st.integers(1, 30))
    seed = data.draw(st.integers())
    words = random.Random(seed).choices(WORDS[kind], k=4 * rows)
    lines = ["{" + ", ".join(words[k : k + 4]) + "}" for k in range(0, len(words), 4)]
    shape, text = f"{kind}[{rows},4]", "{\n" + ",\n ".join(lines) + "}"
    shape = literals.read_shape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(literals, "FEW", 0)
        small = literals._literal(shape, text)
        patch.setattr(literals, "MANY", 0)
        patch.setattr(literals, "_PIECE", data.draw(st.integers(1, 40)))
        large = literals._literal(shape, text)
    assert large == "{" + re.sub(r"[{}]", "", small) + "}"
