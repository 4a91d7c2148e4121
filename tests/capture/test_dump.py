"""Where graphs come from: XLA's dump into a private folder, or the user's own."""

import os
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from xlagraph.capture.host.inherited import FORMS, MARK, OVERRIDES, drop_dump
from xlagraph.capture.places.analysis import AnalysisFile
from xlagraph.capture.xla_dump import private
from xlagraph.capture.xla_dump.modules import PrivateModules
from xlagraph.capture.xla_dump.private import PrivateFolder
from xlagraph.cli.app import cli
from xlagraph.run.reader import read_run
from xlagraph.run.unfinished import PREFIX, unfinished

HASH = "\nComputation hash: e4e2ca0705dd43aa5aa97d6c950f4fb9\n"
ANALYSIS = f"""
Compilation Analysis: ====
Compilation Analysis: Compilation Cause
Compilation Analysis:   user torch_xla.sync
Compilation Analysis: Graph Info: 
Compilation Analysis:   Graph Hash: 1962d32668f886e1f831675433f27ec4
Compilation Analysis:   Number of Graph Inputs: 13
Compilation Analysis:   Number of Graph Outputs: 9
Compilation Analysis: Python Frame Triggered Execution: 
Compilation Analysis:   sync (/site-packages/torch_xla/torch_xla.py:87)
Compilation Analysis:   <module> (/home/me/a (b)/train.py:11)
Compilation Analysis: ----
Compilation Analysis: ====
{HASH}
Post Compilation Analysis: ====
Post Compilation Analysis: Graph input size: 0.0 GB
Post Compilation Analysis: ====
"""  # noqa: W291 - as torch_xla writes it


def test_analysis(tmp_path):
    file = tmp_path / "analysis.txt"
    file.write_text(ANALYSIS * 2 + ANALYSIS.replace(HASH, ""))  # torch_xla 2.6 prints none
    one, two, three = AnalysisFile(file).take()
    assert one == two
    assert one.graph_hash == three.graph_hash == "1962d32668f886e1f831675433f27ec4"
    assert (one.computation_hash, three.computation_hash) == (HASH.split()[-1], "")
    assert (one.inputs, one.outputs, one.cause) == (13, 9, "user torch_xla.sync")
    assert one.frames[1] == ("/home/me/a (b)/train.py", 11, "<module>")


def test_half_an_analysis_waits(tmp_path):
    file = tmp_path / "analysis.txt"
    analyses = AnalysisFile(file)
    assert analyses.take() == []
    file.write_text(ANALYSIS + ANALYSIS[:200])
    assert len(analyses.take()) == 1
    file.write_text(ANALYSIS * 2)
    assert len(analyses.take()) == 1
    assert analyses.take() == []
    file.unlink()
    file.write_text(ANALYSIS)
    assert len(analyses.take()) == 1, "the folder was moved"


MODULE = "HloModule m\n\nENTRY e {\n}\n"
OLD_MODULE = "HloModule m\n\nENTRY e {\n} // e\n\n"
"""As XLA of torch_xla 2.7 and before ends it."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(private.tempfile, "gettempdir", lambda: str(tmp_path))
    made = PrivateFolder()
    made.modules.mkdir()
    return made


def test_the_private_folder_is_emptied_of_what_xla_wrote(folder):
    for name, text in (
        ("module_0001.m.7.before_optimizations.txt", MODULE),
        ("module_0010.m.7.before_optimizations.txt", OLD_MODULE),
        ("module_0002.m.7.before_optimizations.txt", MODULE),
        ("module_0003.m.7.before_optimizations.txt", MODULE[:20]),
        ("module_0001.m.7.ir-no-opt.ll", ""),
        ("not_xlas.txt", ""),
    ):
        (folder.modules / name).write_text(text)
    (folder.modules / "module_0009.folder").mkdir()
    source = PrivateModules(folder)
    numbers = [int(re.search(r"\d+", module.file)[0]) for module in source.take()]
    assert numbers == [1, 2, 10]
    left = {path.name for path in folder.modules.iterdir()}
    assert left == {
        "module_0003.m.7.before_optimizations.txt", "not_xlas.txt", "module_0009.folder"
    }  # fmt: skip
    folder.remove()
    assert not folder.path.exists()


PROTO = b"\x0a\x03\x0a\x01m"
"""An ``HloProto`` around a module of that name."""


@pytest.mark.parametrize(("written", "kept"), [(PROTO, PROTO[2:]), (PROTO[:-1], None), (b"", None)])
def test_a_protobuf_is_taken_beside_its_text(folder, written, kept):
    stem = "module_0001.m.7.before_optimizations"
    (folder.modules / f"{stem}.txt").write_text(MODULE)
    (folder.modules / f"{stem}.hlo.pb").write_bytes(written)
    (module,) = PrivateModules(folder).take()
    assert (module.text, module.proto) == (MODULE.encode(), kept)
    assert not list(folder.modules.iterdir())
    folder.remove()


def test_a_link_in_place_of_the_folder_deletes_nothing(folder, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "module_0001.m.7.before_optimizations.txt").write_text(MODULE)
    (folder.modules / "module_0002.link.ll").symlink_to(target / "module_0001.link")
    (folder.modules / "module_0003.m.before_optimizations.txt").symlink_to(
        target / "module_0001.m.7.before_optimizations.txt"
    )
    assert PrivateModules(folder).take() == []
    folder.remove()
    assert len(list(target.iterdir())) == 1


def test_what_was_killed_while_compiling_is_kept_for_a_while(tmp_path, folder):
    old = time.time() - 3600
    for number in range(12):
        left = tmp_path / f"{PREFIX}{number}"
        (left / MARK.strip("/")).mkdir(parents=True)
        if number % 4:
            (left / MARK.strip("/") / "module_0001.m.before_optimizations.txt").touch()
        os.utime(left, (old + number,) * 2)
    (tmp_path / f"{PREFIX}link").symlink_to("/")
    PrivateFolder().remove()
    kept = {path.name.removeprefix(PREFIX) for path in tmp_path.glob(f"{PREFIX}*")}
    assert kept - {folder.path.name.removeprefix(PREFIX)} == {
        *("2", "3", "5", "6", "7", "9", "10", "11"), "link"
    }  # fmt: skip


def test_what_was_compiling_is_told_once_whatever_its_forms(tmp_path):
    place = tmp_path / f"{PREFIX}x" / "dump"
    place.mkdir(parents=True)
    for number, end in ((1, "hlo.pb"), (1, "txt"), (2, "hlo.pb"), (3, "hlo.pb.gz"), (3, "txt")):
        (place / f"module_000{number}.m.before_optimizations.{end}").touch()
    found = unfinished(str(place), private.os.uname().nodename)
    assert [path.name.partition("before_optimizations.")[2] for path in found] == [
        "txt", "hlo.pb", "txt"
    ]  # fmt: skip


def test_only_our_own_folders_are_looked_into(tmp_path):
    module = "module_0001.m.before_optimizations.txt"
    for name in (f"{PREFIX}x", "other"):
        (tmp_path / name / "dump").mkdir(parents=True)
        (tmp_path / name / "dump" / module).touch()
    host = private.os.uname().nodename
    assert [path.name for path in unfinished(str(tmp_path / f"{PREFIX}x" / "dump"), host)] == [
        module
    ]
    assert unfinished(str(tmp_path / f"{PREFIX}x" / "dump"), "elsewhere") == ()
    assert unfinished(str(tmp_path / "other" / "dump"), host) == ()
    assert unfinished("", host) == unfinished("/", host) == ()


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (f"--xla_dump_to=/proc/self/fd/700{MARK}", None),
        (f" --a=1 --xla_dump_to=/proc/self/fd/700{MARK} --b", " --a=1 --b"),
        (" ".join(["--xla_dump_hlo_module_re=x", *OVERRIDES, f"--xla_dump_to={MARK}"]),
         "--xla_dump_hlo_module_re=x"),
        (" ".join(["--a", *OVERRIDES, *FORMS, f"--xla_dump_to={MARK}", "--b"]), "--a --b"),
        (" ".join([*FORMS, f"--xla_dump_to={MARK}"]), None),
        (" ".join([*FORMS, "--c", f"--xla_dump_to={MARK}"]), " ".join([*FORMS, "--c"])),
        ("--xla_dump_to=/mine", "--xla_dump_to=/mine"),
    ],
)  # fmt: skip
def test_an_inherited_dump_is_dropped(monkeypatch, flags, left):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setenv("PT_XLA_DEBUG_FILE", f"/proc/self/fd/700{MARK}-analysis.txt")
    monkeypatch.setenv("PT_XLA_DEBUG_LEVEL", "1")
    drop_dump()
    assert os.environ.get("XLA_FLAGS") == left
    assert "PT_XLA_DEBUG_FILE" not in os.environ
    assert "PT_XLA_DEBUG_LEVEL" not in os.environ


STEPS = """
import os, subprocess, sys, torch, torch_xla
x = torch.ones(4, device="xla")
torch_xla.sync()
for step in range(8):
    y = x.sum() + torch.ones(4 + step // 3, device="xla").sum()
    torch_xla.sync()
"""


def only_process(folder):
    (process,) = read_run(folder).processes
    return process


def check_graphs(folder, compiles):
    """All compiles have their graph and key, and there is no note."""
    run = read_run(folder)
    (process,) = run.processes
    assert [note.detail for note in process.notes] == []
    assert len([sync for sync in process.syncs if sync.outcome == "compile"]) == compiles
    assert len(process.graphs) == compiles
    for graph in process.graphs:
        assert run.graph_text(graph.digest).startswith("HloModule")
        assert dict(graph.key)["graph_hash"]


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--xla_cpu_enable_fast_math=true",
        "--xla_dump_hlo_module_re=nothing",
        "--xla_dump_hlo_pass_re=.*",
        "--xla_dump_to=theirs",
        "--xla_dump_to=theirs --xla_dump_hlo_as_proto",
        "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_compress_protos",
        "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_hlo_as_text",
        "--xla_dump_to=theirs --xla_dump_include_timestamp",
    ],
)
def test_every_graph_is_stored_whatever_the_flags(run_program, tmp_path, flags):
    run_program(STEPS, XLAGRAPH="1", XLA_FLAGS=flags)
    check_graphs(tmp_path / "xlagraph-run", 4)


STACKS = """
import torch, torch_xla
def model(x, more):
    h = torch.nn.functional.pad(x, (0, more))
    return h.exp()
def train(more):
    y = model(torch.ones(4, 8, device="xla"), more)
    torch_xla.sync()
for step in range(6):
    train(1 + step // 3)
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--xla_cpu_enable_fast_math=true --xla_dump_hlo_as_text=false",
        "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_hlo_as_text",
        "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_compress_protos",
    ],
)
def test_whole_stacks_are_stored(run_program, tmp_path, flags):
    run_program(STACKS, XLAGRAPH="1", XLA_FLAGS=flags)
    folder = tmp_path / "xlagraph-run"
    check_graphs(folder, 2)
    run = read_run(folder)
    assert all(run.graph(digest).proto for digest in run.digests())
    line = next(n for n, line in enumerate(STACKS.splitlines(), 1) if "functional.pad" in line)
    shown = CliRunner().invoke(cli, ["explain", str(folder)]).output
    assert re.search(rf":{line} in model\(\)", shown), shown
    assert not [*folder.glob("**/.*")]


@pytest.mark.torch_xla
def test_without_lines_no_protobuf_is_stored(run_program, tmp_path):
    flags = "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_hlo_as_text"
    run_program(STACKS, XLAGRAPH="watch", XLA_FLAGS=flags)
    run_program(STACKS, XLAGRAPH="watch", XLAGRAPH_DIR="b")
    for name in ("xlagraph-run", "b"):
        run = read_run(tmp_path / name)
        assert len(run.digests()) == 2
        assert not any(run.graph(digest).proto for digest in run.digests())


@pytest.mark.torch_xla
def test_dump_flags_are_no_part_of_the_key(run_program, tmp_path):
    asked = "--xla_dump_to=theirs --xla_dump_hlo_as_proto --xla_dump_hlo_as_text"
    for name, flags in (("a", ""), ("b", asked), ("c", "--xla_cpu_enable_fast_math=true")):
        run_program(STACKS, XLAGRAPH="1", XLAGRAPH_DIR=name, XLA_FLAGS=flags)
    keys = [
        [(key["flags"], key["graph_hash"]) for key in map(dict, process_keys(tmp_path / name))]
        for name in "abc"
    ]
    assert keys[0] == keys[1]
    assert all(one[0] != other[0] for one, other in zip(keys[0], keys[2], strict=True))
    assert all(one[1] != other[1] for one, other in zip(keys[0], keys[2], strict=True))


def process_keys(folder):
    return [graph.key for graph in only_process(folder).graphs]


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            "--xla_dump_to=theirs --xla_dump_hlo_module_re=no",
            "module_re=no in XLA_FLAGS leaves it out",
        ),
        ("--xla_dump_to=theirs --xla_dump_hlo_as_dot", "XLA_FLAGS asks for dot in theirs, not for"),
        (
            "--xla_dump_hlo_as_text",
            "XLA dumps to standard output, as XLA_FLAGS asks: --xla_dump_hlo",
        ),
        (
            "--xla_dump_to=nosuch://x",
            "XLA dumps to nosuch://x, as XLA_FLAGS asks, which is not read",
        ),
    ],
)
def test_a_compile_without_a_graph_has_its_reason(run_program, tmp_path, flags, said):
    done = run_program(STEPS, XLAGRAPH="1", XLAGRAPH_ARM_STEPS="0", XLA_FLAGS=flags)
    process = only_process(tmp_path / "xlagraph-run")
    missing = 4 - len(process.graphs)
    assert len(process.notes) == missing > 0
    for note in process.notes:
        assert note.what == "no graph"
        assert note.detail.startswith("1 compiled without a stored graph: ")
        assert said in note.detail
        (sync,) = [sync for sync in process.syncs if sync.index == note.sync]
        assert sync.outcome == "compile"
    if "stdout" in said or "standard" in said:
        assert "HloModule" in done.stdout, "the user asked to see it"


SET_SINCE = STEPS.replace("x =", "os.environ['XLA_FLAGS'] = '--xla_cpu_enable_fast_math=true'\nx =")


@pytest.mark.torch_xla
def test_flags_that_are_set_after_the_import_are_xlas(run_program, tmp_path):
    run_program(SET_SINCE + "print(os.environ['XLA_FLAGS'])", XLAGRAPH="1")
    process = only_process(tmp_path / "xlagraph-run")
    assert len(process.graphs) == 4, "the steps were looked at closely, and lowered once more"
    run_program(SET_SINCE, XLAGRAPH="1", XLAGRAPH_ARM_STEPS="0", XLAGRAPH_DIR="b")
    notes = {note.detail for note in only_process(tmp_path / "b").notes}
    assert len(notes) == 1
    assert "has set XLA_FLAGS after it imported torch_xla" in notes.pop()


# A child that is not captured: it inherits the environment, or has it made from os.environ.
CHILD = """
child = STEPS
env = {name: value for name, value in os.environ.items() if not name.startswith("XLAGRAPH")}
assert "dump" not in os.environ.get("XLA_FLAGS", ""), os.environ["XLA_FLAGS"]
assert "PT_XLA_DEBUG_FILE" not in os.environ
for one, python in (env, "%"), (None, "%"), (None, "env -u XLAGRAPH %"), (None, "% -S"):
    command = python.replace("%", sys.executable).split()
    command += ["-c", "import sys; sys.path = " + repr(sys.path) + child]
    print(len(subprocess.run(command, env=one, capture_output=True, check=True).stderr))
"""


@pytest.mark.torch_xla
def test_what_children_compile_is_their_own(run_program, tmp_path):
    children = CHILD.replace("STEPS", repr(STEPS))
    first, rest = STEPS.split("x =", 1)
    run_program(first + children + "x =" + rest, XLAGRAPH="1")
    runs = read_run(tmp_path / "xlagraph-run").processes
    assert all(len(process.graphs) == 4 for process in runs)
    assert len(runs) == 2, "itself, and the child that inherits XLAGRAPH"


FORKS = """
import multiprocessing, os, sys, torch, torch_xla
def work(rows):
    x = torch.ones(rows, device="xla") * 2
    torch_xla.sync()
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(rows,)) for rows in (3, 4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    work(5)
"""


@pytest.mark.torch_xla
def test_forked_children_end_as_others_do(run_program, tmp_path):
    (tmp_path / "tmp").mkdir()
    done = run_program(FORKS, XLAGRAPH="1", TMPDIR=str(tmp_path / "tmp"))
    assert len(re.findall("1 step, 1 compile, ", done.stderr)) == 3
    run = read_run(tmp_path / "xlagraph-run")
    shapes = []
    for process in run.processes:
        (graph,) = process.graphs
        shapes += re.findall(r"f32\[\d\]", run.graph_text(graph.digest))[:1]
    assert sorted(shapes) == ["f32[3]", "f32[4]", "f32[5]"]
    assert list((tmp_path / "tmp").glob("xlagraph-*")) == []
    for file in (tmp_path / "xlagraph-run").glob("records-*"):
        assert file.read_text().endswith('{"record":"end"}\n')


LOST = """
import xlagraph.capture.process as process, shutil
dump = process.the_hub().evidence.dump
dump.next_look = float("inf")  # it happens just before a compile
shutil.rmtree(dump.private.path)
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize("full", [False, True])
def test_a_dump_that_cannot_be_written_is_given_another_place(run_program, tmp_path, full):
    """XLA prints a line for each of its files that it cannot write: for one compile only."""
    planted = LOST
    if full:
        planted += "import xlagraph.capture.xla_dump.private as p\n"
        planted += (
            "real = p._free\np._free = lambda path: 0 if str(path).startswith(os.environ['TMPDIR'])"
        )
        planted += " else real(path)\n"
    (tmp_path / "tmp").mkdir()
    first, rest = STEPS.split("x =", 1)
    program = first + planted + "x =" + rest
    done = run_program(program, XLAGRAPH="1", TMPDIR=str(tmp_path / "tmp"))
    process = only_process(tmp_path / "xlagraph-run")
    assert len(process.graphs) == 3
    (note,) = process.notes
    assert "was deleted, or its disk is full: XLA now dumps to" in note.detail
    place = Path(note.detail.split()[-1])
    assert place.is_relative_to(tmp_path / "tmp") != full
    assert not place.exists()
    errors = [
        line for line in done.stderr.splitlines() if "dump.cc" in line or " XLA data " in line
    ]
    assert 0 < len(errors) < 30


FILLS = """
import os, torch, torch_xla
import xlagraph.capture.process as process, xlagraph.capture.xla_dump.private as private

def step(*sizes):
    made = [torch.ones(size, device="xla") * 3 for size in sizes]
    torch_xla.sync()

for _ in range(8):
    step(4)
hub = process.the_hub()
dump = hub.evidence.dump
free, full, first = private._free, os.environ["TMPDIR"], dump.private.path
private._free = lambda path: 0 if str(path).startswith(full) else free(path)
dump.next_look = 0.0
"""
FILLED = {
    "a step of another kind": "step(4, 4)",
    "a stable step": "step(4)\nhub._parts.steady.drain()\nassert not first.exists()\nstep(5)",
}


@pytest.mark.torch_xla
@pytest.mark.parametrize("what", FILLED)
def test_a_disk_that_fills_up_between_two_compiles_is_left(run_program, tmp_path, what):
    (tmp_path / "tmp").mkdir()
    program = f"{FILLS}{FILLED[what]}\nassert not first.exists()\nprint(dump.private.path)"
    done = run_program(program, XLAGRAPH="1", TMPDIR=str(tmp_path / "tmp"))
    check_graphs(tmp_path / "xlagraph-run", 2)
    assert "XLA data" not in done.stderr
    assert not Path(done.stdout.split()[-1]).is_relative_to(tmp_path)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_disk_is_left_before_it_is_full(tmp_path, monkeypatch, has_room):
    monkeypatch.setattr(private.tempfile, "tempdir", str(tmp_path))
    folder = PrivateFolder()
    first = folder.path
    folder.modules.mkdir()
    (folder.modules / "module_0001.a.before_optimizations.txt").write_text("HloModule a\n}\n")
    free = private._free
    monkeypatch.setattr(
        private, "_free", lambda path: 0 if tmp_path in [path, *path.parents] else free(path)
    )
    if not has_room:
        monkeypatch.setattr(PrivateFolder, "_make", lambda _self: (tmp_path / "no/no").stat())
    assert len(PrivateModules(folder).take()) == 1
    assert (folder.path != first) == has_room
    assert first.exists() != has_room
    folder.remove()


@pytest.mark.torch_xla
def test_what_a_killed_process_was_compiling(run_program, tmp_path):
    kill = (
        "import signal\n"
        + STEPS
        + """
import xlagraph.capture.xla_dump.modules as modules
modules.PrivateModules.take = lambda self: os.kill(os.getpid(), signal.SIGKILL)
y = torch.ones(9, device="xla") * 7
torch_xla.sync()
"""
    )
    (tmp_path / "tmp").mkdir()
    run_program(kill, check=False, XLAGRAPH="1", TMPDIR=str(tmp_path / "tmp"))
    (path,) = read_run(tmp_path / "xlagraph-run").unfinished()
    assert "f32[9]" in path.read_text()
    assert path.is_relative_to(tmp_path / "tmp")


@pytest.mark.torch_xla
def test_only_the_user_may_read_what_is_written(run_program, tmp_path):
    (tmp_path / "tmp").mkdir()
    program = "import os\nos.umask(0)\n" + STEPS
    run_program(program, XLAGRAPH="1", TMPDIR=str(tmp_path / "tmp"))
    paths = [tmp_path / "xlagraph-run", *(tmp_path / "xlagraph-run").rglob("*")]
    assert len(paths) > 5
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
