"""What the README shows is what the commands print."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from command import run_xlagraph
from repository import ROOT

from xlagraph.cli.app import COMMANDS

TEXT = (ROOT / "README.md").read_text()


def test_the_first_commands_output_is_what_the_demo_prints(tmp_path: Path) -> None:
    """On the committed capture of the demo's program; times are those of that capture."""
    shutil.copytree(ROOT / "fixtures" / "runs" / "demo", tmp_path / "xlagraph-run-demo")
    done = run_xlagraph("explain", "xlagraph-run-demo", cwd=tmp_path, COLUMNS="80")
    (shown,) = re.findall(r"```\n(What .*?)```", TEXT, re.DOTALL)
    assert done.returncode == 1
    assert done.stdout.startswith(shown)
    assert "cls.predictions.bias" in shown.partition("\nWhere ")[0]
    line = re.search(r"^Where examples/bert_fsdp\.py:(\d+) in build\(\)", shown, re.MULTILINE)
    assert line
    program = (ROOT / "examples" / "bert_fsdp.py").read_text().splitlines()
    assert program[int(line[1]) - 1].strip() == 'return FSDP(bert.to("xla"), **SHARDED)'


def test_every_command_is_in_the_readme_and_no_other() -> None:
    named = set(re.findall(r"^xlagraph ([a-z]+)", TEXT, re.MULTILINE))
    named |= set(re.findall(r"`xlagraph ([a-z]+)", TEXT))
    assert named == set(COMMANDS)


def test_the_demo_runs_what_the_readme_says() -> None:
    script = (ROOT / "scripts" / "demo").read_text()
    assert "examples/bert_fsdp.py" in script
    assert "--xla_backend_optimization_level=0" in script
    assert "'.[demo]'" in script
