"""Run folders behind URLs: a real object store (moto's S3 server, a process of its own)."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from s3_server import end_store, start_store

from xlagraph.run.reader import read_run
from xlagraph.run.remote import RemoteError

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import sys, time
from importlib.util import find_spec
from pathlib import Path
import xlagraph.run.remote as remote
from xlagraph.run.records import FORMAT_VERSION, NoteRecord, ProcessRecord
from xlagraph.run.writer import RunWriter

remote.PERIOD_SECONDS = 0.2
folder, url = Path(sys.argv[1]), sys.argv[2]
writer = RunWriter(folder, ProcessRecord(FORMAT_VERSION, 0, 1, "h", 1, 1.0, (), 1, ()), 1 << 20)
spool = remote.Spool(folder, url, lambda line: print(line, file=sys.stderr, flush=True))
def end():
    writer.close()
    spool.close()
    print(spool.place)
remote.before_threads_end(end)
writer.store_graph(b"HloModule m")
for line in sys.stdin:
    writer.write(NoteRecord(0, "said", line.strip()))
    time.sleep(0.6)
    print("put", flush=True)
"""


@pytest.fixture(scope="module")
def store():
    """The environment in which s3:// is a server on this host; ``kill`` ends the server."""
    server = start_store()
    yield server
    end_store(server)


def xlagraph(env, *arguments):
    return subprocess.run(
        [sys.executable, "-c", "from xlagraph.cli import main; main()", *arguments],
        env=env | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=300,
    )


def write(env, folder, url):
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), url],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def say(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "put\n"


def test_what_is_written_is_read_back_and_the_spool_goes(store, tmp_path):
    env, _ = store
    process = write(env, tmp_path / "spool", "s3://bucket/jobs/whole/")
    said, errors = process.communicate("one\ntwo\n")
    assert (errors, said.split()[-1]) == ("", "s3://bucket/jobs/whole/")
    assert not (tmp_path / "spool").exists()
    done = xlagraph(env, "stats", "s3://bucket/jobs/whole")
    assert "note: rank 0: said: one" in done.stdout, done.stderr
    assert "note: rank 0: said: two" in done.stdout


def test_what_was_put_is_readable_after_kill(store, tmp_path):
    env, _ = store
    process = write(env, tmp_path / "spool", "s3://bucket/killed")
    say(process, "one")
    for _ in range(20):
        done = xlagraph(env, "stats", "s3://bucket/killed")
        if "said: one" in done.stdout:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = xlagraph(env, "stats", "s3://bucket/killed")
    assert "note: rank 0: said: one" in done.stdout, done.stderr
    assert list((tmp_path / "spool").glob("records-*")), "what was spooled stays"


@pytest.mark.parametrize("url", ["s3://bucket/nowhere", "s3://no-such-bucket/run"])
def test_a_url_without_a_run_is_one_message(store, url):
    done = xlagraph(store[0], "explain", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"xlagraph: {url}: no such run folder\n"


def test_missing_credentials_are_one_message(store, tmp_path):
    env = {k: v for k, v in store[0].items() if k not in ("AWS_ACCESS_KEY_ID", "HOME")}
    env |= {"HOME": str(tmp_path), "AWS_SECRET_ACCESS_KEY": ""}
    env |= {"AWS_EC2_METADATA_DISABLED": "true"}  # a host that is long in not answering
    process = write(env, tmp_path / "spool", "s3://bucket/secret")
    for _ in range(3):
        say(process, "one")
    said, errors = process.communicate()
    assert process.returncode == 0
    assert len(errors.splitlines()) == 1
    assert "s3://bucket/secret: NoCredentialsError" in errors
    assert said.split()[-1] == str(tmp_path / "spool")
    assert read_run(tmp_path / "spool").processes[0].notes
    done = xlagraph(env, "explain", "s3://bucket/secret")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "NoCredentialsError" in done.stderr


PROGRAM = """
import torch, torch_xla
for k in range(5):
    x = torch.ones(k + 2, device="xla") * 2
    torch_xla.sync()
"""


@pytest.mark.torch_xla
@pytest.mark.skipif(find_spec("torch_xla") is None, reason="needs the capture extra")
def test_a_captured_program(store, run_in, tmp_path):
    env, _ = store
    variables = {"XLAGRAPH": "1", "XLAGRAPH_DIR": "s3://bucket/program", "TMPDIR": str(tmp_path)}
    done = run_in(tmp_path, PROGRAM, **{**env, **variables})
    assert done.returncode == 0, done.stderr
    assert "see: xlagraph explain s3://bucket/program" in done.stderr
    assert not list(tmp_path.glob("xlagraph-*"))
    explained = xlagraph(env, "explain", "s3://bucket/program")
    assert explained.returncode == 1, explained.stderr
    assert "4 compiles beyond warm-up" in explained.stdout
    assert "Next:  xlagraph diff s3://bucket/program:" in explained.stdout
    compared = xlagraph(env, "diff", "s3://bucket/program:D", "s3://bucket/program:E")
    assert compared.returncode == 1
    assert "f32[5]" in compared.stdout
    assert "s3://bucket/program:E" in xlagraph(env, "list", "s3://bucket/program").stdout


def test_a_store_that_goes_away_is_one_message_and_the_program_goes_on(store, tmp_path):
    """The last test of the store: it ends it."""
    env, server = store
    process = write(env, tmp_path / "spool", "s3://bucket/lost")
    say(process, "one")
    server.kill()
    server.communicate()
    for line in ("two", "three", "four"):
        say(process, line)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert len(errors.splitlines()) == 1
    assert errors.startswith("s3://bucket/lost: ")
    assert said.split()[-1] == str(tmp_path / "spool")
    assert [n.detail for n in read_run(tmp_path / "spool").processes[0].notes] == [
        *("one", "two", "three", "four")
    ]


def test_memory_is_a_url_too(tmp_path):
    """A backend within the process: what is put is read back by the same process."""
    pytest.importorskip("fsspec")
    code = WRITER.replace("for line in sys.stdin", "for line in ['one']")
    code = code.replace("remote.before_threads_end(end)", "")
    code += "end()\nfrom xlagraph.run.reader import read_run\n"
    code += "run = read_run(url)\nprint(run.processes[0].notes[0].detail, run.digests())"
    (tmp_path / "spool").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "spool"), "memory://jobs/run"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].startswith("one ('")


def test_a_protocol_that_is_not_known():
    with pytest.raises(RemoteError, match="nosuch"):
        read_run("nosuch://bucket/run")
