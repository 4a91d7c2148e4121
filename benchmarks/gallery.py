"""Runs the programs of examples/gallery, as they are and mended: recompilations in libraries.

Each program says the true cause in its docstring (``Kind:``) and what it needs (``Needs:``); with
``MENDED=1`` in its environment it runs with the fix of its page in docs/gallery. The libraries are
installed in an environment of their own, unless one is given::

    python benchmarks/gallery.py [--python PYTHON | --venv DIR] [--keep DIR] [NAME ...]

Nothing but packages is downloaded: models are tiny, weights random. The exit status is 1 where a
cause is not the true one, or a mended program loses as many compiles beyond warm-up as before.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.model import CauseGroup, RunExplanation

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "examples" / "gallery"
LIBRARIES = ("transformers==5.23.0", "accelerate==1.15.0", "timm==1.0.31", "torchmetrics==1.9.0")
TIMEOUT = 900


def install(folder: Path) -> Path:
    """Makes an environment with this project and the libraries; returns its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", f"{ROOT}[capture]", *LIBRARIES], check=True)
    return python


def header(path: Path) -> dict[str, str]:
    """The fields of a program's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return dict(re.findall(r"^(Kind|Needs|Page): (.+)$", text, re.MULTILINE))


def explain(path: Path, folder: Path, python: Path, *, mended: bool) -> RunExplanation:
    """Runs a program under capture and explains the run.

    Raises:
        subprocess.CalledProcessError: the program failed.
    """
    subprocess.run(
        [python, path],
        env={
            **os.environ,
            "MENDED": str(int(mended)),
            "XLAGRAPH": "2",
            "XLAGRAPH_DIR": str(folder),
            "XLAGRAPH_SUMMARY": "0",
            "XLA_IR_DEBUG": "1",
            "XLA_HLO_DEBUG": "1",
            "PJRT_DEVICE": "CPU",
        },
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=TIMEOUT,
    )
    return explain_run(read_run(folder))


def beyond_warm_up(explained: RunExplanation) -> list[CauseGroup]:
    """Why a run compiled after its warm-up, also where that is no alarm: a change that stays."""
    return [group for group in explained.groups if group.meant or not group.expected]


def lost(explained: RunExplanation) -> int:
    """The compiles of a run beyond warm-up."""
    return sum(group.compiles for group in beyond_warm_up(explained))


def row(path: Path, keep: Path, python: Path) -> tuple[str, bool]:
    """A line of the table, and whether it is as it should be."""
    kind = header(path)["Kind"]
    before = explain(path, keep / path.stem, python, mended=False)
    after = explain(path, keep / f"{path.stem}.mended", python, mended=True)
    problems = beyond_warm_up(before)
    kinds = list(dict.fromkeys(group.kind.id for group in problems))
    proved = all(group.proved for group in problems)
    is_right = kind in kinds[:1] and lost(after) < lost(before)
    cells = (
        path.stem,
        header(path)["Needs"],
        " + ".join(kinds) or "none",
        "yes" if proved else "no",
        f"{lost(before)} of {before.compiles}",
        f"{lost(after)} of {after.compiles}",
        "right" if is_right else f"WRONG: {kind}",
    )
    return f"| {' | '.join(cells)} |", is_right


def main() -> int:
    """Runs the programs asked for, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", type=Path, help="interpreter that has the libraries already")
    parser.add_argument("--venv", type=Path, help="folder of the environment; a temporary one else")
    parser.add_argument("--keep", type=Path, help="folder for the runs; a temporary one else")
    arguments = parser.parse_args()
    rights = []
    with tempfile.TemporaryDirectory() as temporary:
        python = arguments.python or install(arguments.venv or Path(temporary) / "venv")
        keep = arguments.keep or Path(temporary)
        print("| program | library | reported | proved | lost compiles | mended | |")
        print("|---|---|---|---|---:|---:|---|")
        for path in sorted(PROGRAMS.glob("[!_]*.py")):
            if not arguments.names or path.stem in arguments.names:
                line, is_right = row(path, keep, python)
                rights.append(is_right)
                print(line, flush=True)
    return 0 if rights and all(rights) else 1


if __name__ == "__main__":
    sys.exit(main())
