"""The command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from repository import ROOT


def run_xlagraph(
    *arguments: str, stdin: bytes | None = None, cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``xlagraph`` as a process of its own, with these variables too."""
    done = subprocess.run(
        [sys.executable, "-c", "from xlagraph.cli import main; main()", *arguments],
        capture_output=True,
        cwd=cwd,
        input=stdin,
        env={**os.environ, **env},
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
