"""What a command must not load: the analysis runs without torch, and ``--help`` is light."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "torch_xla", "networkx", "jinja2", "numpy", "jaxlib", "google.protobuf")


def _loaded(code: str, **env: str) -> set[str]:
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    plain = {k: v for k, v in os.environ.items() if not k.startswith("XLAGRAPH")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=plain | env
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import xlagraph.cli.app",
        "from xlagraph.cli.app import cli; cli.main(['--help'], standalone_mode=False)",
        "import xlagraph.cli.diff, xlagraph.explain, xlagraph.terminal.explanation",
        "import xlagraph.cli.explain, xlagraph.runs.explain, xlagraph.run.reader",
    ],
)
def test_analysis_loads_nothing_heavy(code: str) -> None:
    assert not _loaded(code) & set(HEAVY)


def test_reading_text_loads_no_protobuf_library(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n")
    loaded = _loaded(f"from xlagraph.hlo import load; load({str(path)!r})")
    assert "xlagraph.hlo.reader" in loaded
    assert "google.protobuf" not in loaded


def test_capture_that_is_off_loads_nothing_of_ours() -> None:
    """The start-up file is there; without the variable it does not even import xlagraph."""
    assert not {name for name in _loaded("pass") if name.split(".")[0] == "xlagraph"}
    assert not {name for name in _loaded("pass", XLAGRAPH="0") if name.split(".")[0] == "xlagraph"}


def test_help_names_every_command() -> None:
    from click.testing import CliRunner

    from xlagraph.cli.app import COMMANDS, cli

    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in result.output
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0
