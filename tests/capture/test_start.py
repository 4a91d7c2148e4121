"""From the interpreter's start to the hooks: nothing is missed, nothing raises, waiting is free."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from xlagraph.capture.host.imports import when_imported
from xlagraph.capture.host.versions import said_of
from xlagraph.run.reader import read_run

STEPS = """
import torch, torch_xla
x = torch.ones(4, device="xla")
for step in range(6):
    y = (x * 2).sum()
    torch_xla.sync()
print("trained")
"""


def recorded(folder):
    (process,) = read_run(folder).processes
    return len([sync for sync in process.syncs if sync.kind == "step"])


@pytest.mark.torch_xla
def test_a_search_for_the_package_is_no_import(run_program, tmp_path):
    """As ``transformers.utils.is_torch_xla_available`` does before anything imports it."""
    search = "import importlib.util\nassert importlib.util.find_spec('torch_xla').origin\n"
    run_program(search + STEPS, XLAGRAPH="1")
    assert recorded(tmp_path / "xlagraph-run") == 6


PAST_THE_HOOK = """
import sys
from importlib.machinery import PathFinder
class Ahead:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path) if name == "torch_xla" else None
sys.meta_path.insert(0, Ahead)
"""


@pytest.mark.torch_xla
def test_an_import_past_the_hook_is_said(run_program, tmp_path):
    done = run_program(PAST_THE_HOOK + STEPS, XLAGRAPH="1")
    assert done.stdout == "trained\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("xlagraph: nothing captured: torch_xla was imported past ")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A module to import, what is said around its import, and a function that watches it."""
    (tmp_path / "watched_module.py").write_text(
        "import os\nif 'FAIL_ONCE' in os.environ:\n    del os.environ['FAIL_ONCE']\n"
        "    raise ImportError('planted')\nloaded = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    said = []

    def watch():
        actions = [lambda word=word: said.append(word) for word in ("after", "before", "failed")]
        when_imported("watched_module", *actions)

    yield said, watch
    sys.modules.pop("watched_module", None)


def test_around_the_import_and_no_longer(watched):
    said, watch = watched
    finders = list(sys.meta_path)
    watch()
    spec = importlib.util.find_spec("watched_module")
    assert spec.origin.endswith("watched_module.py")
    assert said == []
    module = importlib.import_module("watched_module")
    assert module.loaded
    assert said == ["before", "after"]
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert sys.meta_path == finders
    importlib.reload(module)
    assert said == ["before", "after"]
    watch()
    assert said == ["before", "after"] * 2, "at once"


def test_a_failed_import_is_watched_again(watched, monkeypatch):
    said, watch = watched
    monkeypatch.setenv("FAIL_ONCE", "1")
    watch()
    with pytest.raises(ImportError, match="planted"):
        importlib.import_module("watched_module")
    importlib.import_module("watched_module")
    assert said == ["before", "failed", "before", "after"]


def test_who_goes_through_the_finders_meanwhile_misses_none(watched):
    said, watch = watched
    watch()
    others = [
        finder for finder in sys.meta_path if type(finder).__module__ != when_imported.__module__
    ]
    underway = iter(sys.meta_path)
    importlib.import_module("watched_module")
    assert said == ["before", "after"]
    assert [finder for finder in underway if finder in others] == others


def loaded(**environment):
    code = "import sys, json\nfinder = type(sys.meta_path[0]).__module__\n"
    code += "print(json.dumps([list(sys.modules), finder]))"
    env = {name: value for name, value in os.environ.items() if not name.startswith("XLAGRAPH")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | environment, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_a_program_that_never_imports_torch_xla_pays_for_two_small_files():
    (off, _), (on, finder) = loaded(), loaded(XLAGRAPH="1")
    assert finder == "xlagraph.capture.host.imports"
    more = set(on) - set(off)
    assert {name.split(".")[0] for name in more} <= {"xlagraph", "__future__", "atexit"}
    assert len(more) <= 8


def test_a_job_has_one_name_from_its_first_process_on(run_program):
    code = "import os, subprocess, sys\nprint(os.environ['XLAGRAPH_JOB'], flush=True)\n"
    code += "if len(sys.argv) == 1: subprocess.run([sys.executable, '-c', sys.argv[0], 'child'])"
    code = code.replace("sys.argv[0]", repr(code.split("if len")[0]))
    first, second = run_program(code, fresh=True, XLAGRAPH="1").stdout.split()
    assert first == second != ""


BAD_STREAMS = {
    "full disk": "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
    "broken pipe": "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 2)",
    "write only": "sys.stderr = type('Writes', (), {'write': lambda *_: None})()",
    "raises": "sys.stderr = type('Raises', (), {'write': lambda *_: 1 / 0})()",
    "none": "sys.stderr = None",
    "own file on a full disk": "sys.stderr = open('/dev/full', 'w')",
    "closed": "sys.stderr = open('/dev/null', 'w'); sys.stderr.close()",
}
FAILING_HOOK = """
import xlagraph.capture.tensors.live as live
def bad(*arguments):
    raise RuntimeError("planted \\ud800")
live.LiveReader.read = bad
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize("name", BAD_STREAMS)
def test_a_bad_standard_error_hurts_nothing(run_program, tmp_path, name):
    program = f"import os, sys\n{BAD_STREAMS[name]}\n{FAILING_HOOK}{STEPS}"
    whole_end = "full disk" in name  # the interpreter's last flush counts too
    off, on = (run_program(program, check=False, whole_end=whole_end, XLAGRAPH=n) for n in "01")
    assert on.stdout == off.stdout == "trained\n"
    assert on.returncode == off.returncode
    assert recorded(tmp_path / "xlagraph-run") == 6


PLANTED = """
import xlagraph.capture.{module} as module
def bad(*arguments, **options):
    raise {error}
module.{name} = bad
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("start", "options_from"),
        ("start", "choose_folder"),
        ("process", "prepare_dump"),
        ("process", "ensure_hub"),
        ("process", "add_sink"),
        ("start", "Session"),
        ("steps.hub", "Hub.install"),
        ("steps.hub", "Hub.join"),
        ("places.lines", "Lines.switch"),
        ("places.sources", "SourceReader.new"),
        ("steps.hub", "Hub.settle"),
        ("session", "Session.close"),
        ("session", "Session.on_sync"),
        ("tensors.fsdp", "Buckets.install"),
        ("process", "install_values"),
    ],
)
@pytest.mark.parametrize("error", ["ValueError('planted')", "RecursionError"])
def test_whatever_fails_the_program_goes_on(run_program, module, name, error):
    program = PLANTED.format(module=module, name=name, error=error) + STEPS
    program += "import torch_xla.distributed.fsdp.utils\nprint(y.item())"
    done = run_program(program, XLAGRAPH="1")
    assert done.stdout == "trained\n8.0\n"
    said = done.stderr.splitlines()
    assert len([line for line in said if "planted" in line or "RecursionError" in line]) == 1
    assert all(line.startswith("xlagraph: ") for line in said)


@pytest.mark.torch_xla
@pytest.mark.parametrize("level", ["²", "٣x", "7", "-1", "1e3", "1\n"])
def test_an_odd_level_is_one_line(run_program, level):
    done = run_program(STEPS, XLAGRAPH=level)
    assert done.stdout == "trained\n"
    said = [line for line in done.stderr.splitlines() if "are not recorded" not in line]
    assert len(said) == 1


@pytest.mark.torch_xla
def test_a_job_file_that_is_no_text(run_program, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "job").write_bytes(b"\xff\xfe\x00")
    done = run_program(STEPS, XLAGRAPH="1", XLAGRAPH_DIR="run")
    assert done.stdout == "trained\n"
    assert recorded(tmp_path / "run") == 6


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.5.1", "under torch_xla 2.5.1 these are not recorded: computation hashes"),
        ("2.6.1+libtpu", "under torch_xla 2.6.1+libtpu these are not recorded: computation hashes"),
        ("2.7.0", ""),
        ("2.9.0", ""),
        ("2.4.0", "capture is tested with torch_xla 2.5 to 2.9; with 2.4.0 something may be"),
        ("2.10.0+git", "capture is tested with torch_xla 2.5 to 2.9; with 2.10.0+git something"),
        ("", "capture is tested with torch_xla 2.5 to 2.9; with an unknown version something"),
    ],
)
def test_what_a_version_cannot_give(version, said):
    assert said_of(version).startswith(said)
    assert bool(said_of(version)) == bool(said)


@pytest.mark.torch_xla
def test_another_version_is_one_line_at_the_start(run_program, tmp_path):
    other = "import sys, types\nold = types.ModuleType('torch_xla.version')\n"
    other += "old.__version__, old.__torch_gitrev__, old.__xla_gitrev__ = '2.4.0', '', ''\n"
    other += "sys.modules['torch_xla.version'] = old\n"
    done = run_program(other + STEPS, XLAGRAPH="1")
    first, last = done.stderr.splitlines()
    assert first == (
        "xlagraph: capture is tested with torch_xla 2.5 to 2.9; with 2.4.0 something may be missing"
    )
    assert "6 steps" in last
    assert recorded(tmp_path / "xlagraph-run") == 6
