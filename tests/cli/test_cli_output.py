"""What the commands print on real captures, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from command import run_xlagraph
from golden import check
from real_modules import ROOT

GOLDEN = Path(__file__).parent / "golden"
RUN = "fixtures/runs/carry"
LOG = "fixtures/streams/001_bug.jsonl.zst"
DUMP = "fixtures/corpus/torch_dump"


xlagraph = partial(run_xlagraph, COLUMNS="100")


@pytest.mark.parametrize(
    "arguments", [("cause", "dtype"), ("diff", f"{RUN}:D", f"{RUN}:F"), ("diff",), ("--help",)]
)
def test_the_package_run_as_a_module_is_the_command(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xlagraph", *arguments],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
    )
    command = xlagraph(*arguments)
    assert (done.stdout.decode(), done.stderr.decode()) == (command.stdout, command.stderr)
    assert done.returncode == command.returncode
    assert done.stdout or done.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("diff_carry", ("diff", f"{RUN}:E", f"{RUN}:G"), 1),
        ("diff_carry_mirror", ("diff", f"{RUN}:G", f"{RUN}:E"), 1),
        ("diff_output_order", ("diff", f"{RUN}:D", f"{RUN}:F"), 1),
        ("diff_warm_up", ("diff", "fixtures/runs/fixed:D", "fixtures/runs/fixed:E"), 1),
        ("diff_same", ("diff", f"{RUN}:D", f"{RUN}:D"), 0),
        ("explain_carry", ("explain", RUN), 1),
        ("explain_fixed", ("explain", "fixtures/runs/fixed"), 0),
        ("canon", ("canon", f"{RUN}:A"), 0),
        ("canon_digests", ("canon", "--digests", f"{RUN}:G"), 0),
    ],
)
def test_output(name: str, arguments: tuple[str, ...], code: int) -> None:
    done = xlagraph(*arguments)
    assert done.stderr == ""
    assert done.returncode == code
    check(done.stdout, GOLDEN / f"{name}.txt")


def test_the_verdict_of_the_main_job_names_buckets_and_tensors() -> None:
    """Issue 4160: which buckets, which tensors, carried over the step, proved."""
    said = xlagraph("diff", f"{RUN}:E", f"{RUN}:G", COLUMNS="400").stdout
    assert said.startswith("What  Buckets keep gradients until the next step.\nWhere ")
    assert "Reduce-scatter buckets carry tensors over the step" in said
    assert "blocks.2: norm.bias" in said
    assert "then the modules are the same computation" in said
    assert "Ignored as harmless" in said


def test_commands_to_be_copied_are_quoted(tmp_path: Path) -> None:
    run = tmp_path / "my run"
    shutil.copytree(ROOT / "fixtures" / "pairs" / "stable", run)
    done = xlagraph("explain", str(run))
    assert f"Next:  xlagraph report '{run}' -o report.html\n" in done.stdout


def test_verdict_first_and_in_a_screenful() -> None:
    lines = xlagraph("diff", f"{RUN}:E", f"{RUN}:G").stdout.splitlines()
    assert [line[:5].strip() for line in lines[:3]] == ["What", "Where", "Fix"]
    assert len(lines) <= 50


def test_json_says_the_same() -> None:
    done = xlagraph("diff", "--json", f"{RUN}:E", f"{RUN}:G")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["schema"] == 2
    assert said["verdict"]["what"] == "Buckets keep gradients until the next step."
    assert said["causes"][0]["where"]["command"].startswith("XLAGRAPH=1 python ")
    assert said["proved"]
    assert said["causes"][0]["kind"] == "bucket-carry"
    assert said["unexplained"] == {"share": 0.0, "a": [], "b": []}
    run = json.loads(xlagraph("explain", "--json", RUN).stdout)
    assert [g["letter"] for g in run["graphs"]] == list("ABCDEFG")


def test_list_and_canon_speak_json() -> None:
    listed = json.loads(xlagraph("list", "--json", RUN).stdout)
    assert [one["spec"] for one in listed["modules"]] == [f"{RUN}:{c}" for c in "ABCDEFG"]
    text = json.loads(xlagraph("canon", "--json", f"{RUN}:A").stdout)
    assert "\n".join(text["lines"]) + "\n" == xlagraph("canon", f"{RUN}:A").stdout
    found = json.loads(xlagraph("canon", "--json", "--digests", f"{RUN}:A").stdout)["digests"]
    assert [row["level"] for row in found][:2] == ["names", "dead-code"]
    assert all(row["digest"] in xlagraph("canon", "--digests", f"{RUN}:A").stdout for row in found)


def test_groups_in_json_carry_fix_evidence_and_place() -> None:
    run = json.loads(xlagraph("explain", "--json", "fixtures/runs/demo").stdout)
    group = run["groups"][0]
    assert group["fix"].startswith("Put a frozen copy in its place before FSDP wraps the model")
    assert "m = bert.cls.predictions\nm.bias = torch.nn.Parameter(m.bias.data" in group["fix"]
    assert group["where"]["file"] == "examples/bert_fsdp.py"
    assert group["where"]["tensors"] == ["cls.predictions.bias"]
    assert "miss this optimizer.step()" in group["effect"]
    assert group["effect"] in run["verdict"]["notes"]
    (follows,) = group["follows"]
    assert follows.startswith("graph H (step 10): optimizer state came into being")
    assert "reduces" not in group["what"]  # how much is evidence
    assert any("D reduces 32 tensors in 4 buckets" in one["text"] for one in group["evidence"])
    assert run["verdict"]["what"] == (  # wrong values come before the time
        "Wrong training: some gradients are applied a step late, as FSDP waits for "
        "cls.predictions.bias, which gets none."
    )
    assert "4 compiles beyond warm-up lost 6.9 s." in run["verdict"]["notes"]
    assert "Nothing in the step uses cls.predictions.bias: use it" in group["effect"]
    assert [frame["function"] for frame in group["where"]["stack"]] == ["build", "main", "<module>"]
    source = {row["line"]: row["text"] for row in group["where"]["source"]}
    assert source[group["where"]["line"]] == '    return FSDP(bert.to("xla"), **SHARDED)'
    assert len(source) == 5
    assert "got no gradient" in group["evidence"][0]["text"]


def test_the_line_stands_there_as_it_was_captured_and_its_stack_on_demand() -> None:
    plain = xlagraph("explain", "fixtures/runs/demo").stdout
    assert '         >    49      return FSDP(bert.to("xla"), **SHARDED)\n   Fix ' in plain
    assert "examples/bert_fsdp.py:55 in main()" not in plain
    assert (
        "examples/bert_fsdp.py:55 in main()"
        in xlagraph("explain", "--stack", "fixtures/runs/demo").stdout
    )


def test_a_pipe_gets_each_paragraph_in_one_line() -> None:
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "xlagraph", "explain", RUN], capture_output=True, cwd=ROOT, env=env
    )
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) > 150
    assert [line for line in lines if line.startswith("         ")] == []
    assert [line for line in lines if line.endswith(" ")] == []


def test_at_80_columns_a_row_of_the_table_is_a_line_and_no_place_breaks() -> None:
    said = xlagraph("explain", "fixtures/transformers/bert_stock", COLUMNS="80").stdout
    rows = said.partition("\ngraph ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[0] for row in rows] == list("ABCDEFGH")
    assert all("transformers_fsdp.py:" in row for row in rows)
    assert "modeling_bert.py:484" in said


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b[" in xlagraph("explain", RUN, FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[3" not in xlagraph("explain", RUN, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[" not in xlagraph("explain", RUN).stdout


@pytest.mark.parametrize("width", ["60", "100", "200"])
def test_lines_keep_to_the_width(width: str) -> None:
    for line in xlagraph("diff", f"{RUN}:E", f"{RUN}:G", COLUMNS=width).stdout.splitlines():
        assert len(line) <= int(width)


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("diff", "nowhere.hlo", f"{RUN}:A"), None, "nowhere.hlo: no such file or folder"),
        (("diff", f"{RUN}:Z", f"{RUN}:A"), None, "no graph is called 'Z'; the run has A, B, C"),
        (("diff", RUN, f"{RUN}:A"), None, "name one of its graphs"),
        (("list", "docs"), None, "holds no module"),
        (("list", "/dev/null"), None, "holds no module"),
        (("list", "README.md"), None, "README.md: holds no module"),
        (("list", "--json", "README.md"), None, "README.md: holds no module"),
        (("explain", "fixtures"), None, "fixtures: not a run folder: it has no records"),
        (("explain", "fixtures/runs"), None, "runs, "),
        (("explain", DUMP), None, f"but it holds 4 modules: `xlagraph list {DUMP}` names them"),
        (("report", DUMP), None, "`xlagraph diff A B` compares two"),
        (("explain", RUN, RUN), None, "(fixtures/runs/carry); `xlagraph compare OLD NEW`"),
        (("diff", f"{DUMP}:11", f"{DUMP}:4"), None, "; XLA's numbers of those here: 0, 4 (see"),
        (("explain", "nowhere"), None, "nowhere: no such file or folder"),
        (("list", "nowhere"), None, "nowhere: no such file or folder"),
        (("streams", "nowhere"), None, "nowhere: no such file or folder"),
        (("stats", f"{RUN}:A"), None, f"{RUN}:A: graph A of a run, not a run: name {RUN}"),
        (("canon", "-"), b"", "holds no module"),
        (("canon", "-"), b"\x00\x01\x02\x80" * 50, "neither text nor an HLO protobuf"),
        (("canon", "-"), b"\x01" + bytes(range(128, 256)) * 30, "neither text nor an HLO protobuf"),
        (("canon", "-"), b"\n\x20\n\x06jit_me\x12\x04", "cut off: field 1 reaches to byte 34"),
        (("explain", "README.md"), None, "a file, not a run folder: `xlagraph diff A B`"),
        (("report", "README.md"), None, "a file, not a run folder: `xlagraph diff A B`"),
        (("stats", "README.md"), None, "a file, not a run folder"),
        (("explain", LOG), None, "not a run folder: `xlagraph streams` reads a stream log"),
        (("streams", RUN), None, "a folder, no stream log: `xlagraph explain` explains a run"),
        (
            ("canon", "-"),
            b"HloModule m\nENTRY e {\n  ROOT %a = f32[2]{0} add(%b, %b)\n}\n",
            "<stdin>:3:",
        ),
        (("canon", "-"), b"HloModule m\nENTRY e {\n  ROOT %a = f32[2]{0} add(", "<stdin>:3:"),
        (("diff",), None, "Missing argument"),
        (("canon", "--level", "nothing", "x"), None, "Invalid value"),
        (("frobnicate",), None, "No such command 'frobnicate'.\n"),
        (("explian",), None, "No such command 'explian'; did you mean explain?"),
    ],
)
def test_bad_input_ends_with_two_and_one_message(
    arguments: tuple[str, ...], stdin: bytes | None, said: str
) -> None:
    done = xlagraph(*arguments, stdin=stdin)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("list",), ("canon",)])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short_says_so(command: tuple[str], share: float, tmp_path: Path) -> None:
    whole = next((ROOT / RUN / "graphs").iterdir()).read_bytes()
    cut = tmp_path / "cut.hlo.zst"
    cut.write_bytes(whole[: int(len(whole) * share)])
    assert "compressed data is damaged or cut off" in xlagraph(*command, str(cut)).stderr


def test_list_prints_the_numbers_by_which_modules_of_a_dump_folder_open() -> None:
    rows = [line.split("\t") for line in xlagraph("list", DUMP).stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == [
        f"{DUMP}:0", f"{DUMP}:0:after", f"{DUMP}:4", f"{DUMP}:4:after"
    ]  # fmt: skip
    assert all(xlagraph("canon", row[0]).returncode == 0 for row in rows[:2])


def test_a_file_that_torch_xla_named_after_a_rank_is_proposed(tmp_path: Path) -> None:
    (tmp_path / "dump.hlo.0").write_text("x")
    for command, spec in (("list", "dump.hlo"), ("canon", "dump.hlo:3")):
        said = xlagraph(command, spec, cwd=tmp_path).stderr
        assert said.endswith("no such file or folder; did you mean dump.hlo.0?\n")
    assert "mean" not in xlagraph("list", "other.hlo", cwd=tmp_path).stderr


def test_a_shell_completes_kinds_and_run_folders(tmp_path: Path) -> None:
    def completed(words: str) -> list[str]:
        done = xlagraph(cwd=tmp_path, COMP_WORDS=words, COMP_CWORD="2", **shell)
        return done.stdout.splitlines()

    shell = {"_XLAGRAPH_COMPLETE": "bash_complete"}
    shutil.copytree(ROOT / RUN, tmp_path / "runs" / "xlagraph-run")
    assert completed("xlagraph cause python-") == ["plain,python-index", "plain,python-size"]
    assert completed("xlagraph explain runs/") == ["plain,runs/xlagraph-run"]
    assert completed("xlagraph explain nothing") == ["dir,nothing"]


def test_stats_has_a_column_of_unread_lines_only_where_there_are_some(tmp_path: Path) -> None:
    shutil.copytree(ROOT / RUN, tmp_path / "run")
    assert xlagraph("stats", "run", cwd=tmp_path).stdout.splitlines()[0].endswith("\tcompiling")
    record = next((tmp_path / "run").glob("records-*.jsonl"))
    record.write_text(record.read_text() + "{cut off")
    lines = xlagraph("stats", "run", cwd=tmp_path).stdout.splitlines()
    assert lines[0].endswith("\tunread lines")
    assert lines[1].endswith("\t1")


def test_list_finds_modules_under_any_name() -> None:
    done = xlagraph("list", "fixtures/corpus")
    assert done.returncode == 0
    specs = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert "fixtures/corpus/jax_fft.before.hlo.gz:1" in specs
    files = {spec.rpartition(":")[0] for spec in specs}
    assert files == {str(p.relative_to(ROOT)) for p in (ROOT / "fixtures/corpus").glob("*.*")}
    assert xlagraph("canon", "fixtures/corpus/jax_fft.before.hlo.gz:1").returncode == 0


GRAPH = """[ScheduleSyncTensorsGraph]
TensorsGraphInfo:
  main (train.py:{line})

Root Hashes: (1)

## BEGIN_GRAPH
HloModule m, entry_computation_layout={{(f32[2]{{0}})->(f32[2]{{0}})}}

ENTRY %m (p: f32[2]) -> (f32[2]) {{
  %p = f32[2]{{0}} parameter(0)
{body}  ROOT %t = (f32[2]{{0}}) tuple(f32[2]{{0}} %{last})
}}

Graph Hash: {hash}

## END_GRAPH

"""
ONCE = "  %n = f32[2]{0} negate(f32[2]{0} %p)\n"
TWICE = ONCE + "  %k = f32[2]{0} negate(f32[2]{0} %p)\n"


def test_where_a_saved_graph_was_synced_is_the_programs_own_line(tmp_path: Path) -> None:
    """torch_xla writes the frames of its own sync above those of the program."""
    saved = tmp_path / "saved.0"
    library = "  sync (/v/site-packages/torch_xla/torch_xla.py:87)\n"
    own = "  main (train.py:3)\n"
    once = GRAPH.format(line=3, body=ONCE, last="n", hash="abcdef12")
    more = ONCE + "  %k = f32[2]{0} exponential(f32[2]{0} %n)\n"
    twice = GRAPH.format(line=3, body=more, last="k", hash="12abcdef")
    for frames, line in (
        (library + own + "  <module> (train.py:9)\n", "train.py:3 in main()"),
        (own, "train.py:3 in main()"),
        (library, "torch_xla/torch_xla.py:87 in sync() (a library)"),
    ):
        saved.write_text((once + twice).replace(own, frames))
        done = xlagraph("diff", f"{saved}:1", f"{saved}:2")
        assert f"Where the step that ends at {line}\n" in done.stdout


def test_a_hash_that_several_texts_have_names_none(tmp_path: Path) -> None:
    saved = tmp_path / "saved.0"
    once = GRAPH.format(line=3, body=ONCE, last="n", hash="abcdef12")
    saved.write_text(once * 2)
    assert xlagraph("canon", f"{saved}:abcdef").returncode == 0
    saved.write_text(once + GRAPH.format(line=4, body=TWICE, last="k", hash="abcdef12"))
    done = xlagraph("canon", f"{saved}:abcdef")
    assert done.returncode == 2
    assert f"holds 2 modules to choose from: {saved}:1, {saved}:2\n" in done.stderr


def test_modules_of_one_graph_hash_that_differ(tmp_path: Path) -> None:
    """torch_xla's key does not tell repeated values: different modules, compiled once."""
    body = ONCE + "  %k = f32[2]{0} negate(f32[2]{0} %p)\n  %s = f32[2]{0} add(f32[2]{0} %n, "
    shared = ONCE + "  %s = f32[2]{0} add(f32[2]{0} %n, f32[2]{0} %n)\n"
    saved = tmp_path / "saved.0"
    saved.write_text(
        GRAPH.format(line=3, body=shared, last="s", hash="abcdef12")
        + GRAPH.format(line=3, body=body + "f32[2]{0} %k)\n", last="s", hash="abcdef12")
    )
    done = xlagraph("diff", f"{saved}:1", f"{saved}:2", COLUMNS="300")
    assert done.returncode == 1
    assert "repeated-expression" in done.stdout
    assert "Both have one graph hash" in done.stdout


@pytest.mark.parametrize("moment", [0.02, 0.1, 0.2, 0.4])
def test_ctrl_c_is_one_line_at_any_moment(moment: float) -> None:
    """While commands are imported, and while one waits."""
    code = "from xlagraph.cli import main; print('ready', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "canon", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.strip() == "xlagraph: interrupted"  # click begins a new line behind ^C
    assert process.returncode == 130


def test_ctrl_c_is_known_behind_another_error() -> None:
    """Python 3.11 wraps what is raised while a class is made, as happens at imports."""
    code = """if True:
        from xlagraph.cli import app, main
        def run():
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as stopped:
                raise RuntimeError("Error calling __set_name__") from stopped
        app.run = run
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == "xlagraph: interrupted\n"
    assert done.returncode == 130


def test_ctrl_c_within_a_callback_is_not_lost() -> None:
    """Python drops what is raised there; the locks of imports go by such callbacks."""
    code = """if True:
        import signal, time, weakref
        from xlagraph.cli import app, main
        class Lock: pass
        def run():
            lock = Lock()
            gone = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGINT))
            del lock
            time.sleep(60)
        app.run = run
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == "xlagraph: interrupted\n"
    assert done.returncode == 130
