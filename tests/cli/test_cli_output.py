"""What the commands print on real captures, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden import check
from real_modules import ROOT

GOLDEN = Path(__file__).parent / "golden"
RUN = "fixtures/runs/carry"


def xlagraph(
    *arguments: str, stdin: bytes | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does: a process of its own, in the repository."""
    done = subprocess.run(
        [sys.executable, "-c", "from xlagraph.cli import main; main()", *arguments],
        capture_output=True,
        cwd=ROOT,
        input=stdin,
        env={**os.environ, "COLUMNS": "100", **env},
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


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
    assert said.startswith("Reduce-scatter buckets carry tensors over the step")
    assert "blocks.2: up.bias" in said
    assert "then the modules are the same computation" in said
    assert "Set aside as noise" in said


def test_verdict_first_and_in_a_screenful() -> None:
    lines = xlagraph("diff", f"{RUN}:E", f"{RUN}:G").stdout.splitlines()
    assert "buckets carry tensors" in lines[0]
    assert len(lines) <= 50


def test_json_says_the_same() -> None:
    done = xlagraph("diff", "--json", f"{RUN}:E", f"{RUN}:G")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["schema"] == 1
    assert said["proved"]
    assert said["causes"][0]["kind"] == "bucket-carry"
    assert said["unexplained"] == {"share": 0.0, "a": [], "b": []}
    run = json.loads(xlagraph("explain", "--json", RUN).stdout)
    assert [g["letter"] for g in run["graphs"]] == list("ABCDEFG")


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
        (("explain", "fixtures"), None, "not a run folder"),
        (("explain", "nowhere"), None, "no such run folder"),
        (("canon", "-"), b"", "holds no module"),
        (("canon", "-"), b"\x00\x01\x02\x80" * 50, ""),
        (
            ("canon", "-"),
            b"HloModule m\nENTRY e {\n  ROOT %a = f32[2]{0} add(%b, %b)\n}\n",
            "<stdin>:3:",
        ),
        (("canon", "-"), b"HloModule m\nENTRY e {\n  ROOT %a = f32[2]{0} add(", "<stdin>:3:"),
        (("diff",), None, "Missing argument"),
        (("canon", "--level", "nothing", "x"), None, "Invalid value"),
        (("frobnicate",), None, "No such command"),
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
