"""Runs a round of programs and module pairs that were written without sight of this tool.

A round is a folder in ``benchmarks/unseen`` (or elsewhere) with ``programs``, ``pairs`` and
``truth.json``; the README there says how it is made. Each program runs under ``XLAGRAPH=1`` and is
explained, each pair is compared. The sheet that is printed sets what is true beside what was said,
for a person to judge::

    python benchmarks/unseen.py benchmarks/unseen/round1 [NAME ...] [--keep DIR] [--python PYTHON]

The judgements at first sight and after the mends stand in ``judged.json`` of each round; the
tables of its ``score.md`` are made from them::

    python benchmarks/unseen.py --table benchmarks/unseen/round1

Programs of ``programs_third`` need what its requirements.txt names: give ``--python``
an interpreter that has it, with this package, to run those instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

TIMEOUT = 600
GRADES = ("right", "vague", "wrong", "wrong and sure")
Case = dict[str, Any]


def said_of_program(path: Path, folder: Path, python: str) -> str:
    """What ``xlagraph explain`` says of a run of this program, and its exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "XLAGRAPH": "1",
        "XLAGRAPH_DIR": str(folder / "run"),
        "XLAGRAPH_SUMMARY": "0",
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [python, str(path.resolve())],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    failed = f"the program ended with {ran.returncode}: {ran.stderr[-500:]}\n"
    return (failed if ran.returncode else "") + command("explain", str(folder / "run"))


def command(*arguments: str) -> str:
    """What a command of xlagraph prints, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "xlagraph", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    return f"{done.stdout}{done.stderr}exit {done.returncode}\n"


def said_of(case: Case, folder: Path, keep: Path, python: str) -> str:
    """What is said of a program or a pair of a round."""
    name = case["name"]
    if "same" in case:
        first = next((folder / "pairs").glob(f"{name}_a.hlo*"))
        second = next((folder / "pairs").glob(f"{name}_b.hlo*"))
        return command("diff", str(first), str(second))
    path = next(folder.glob(f"programs*/{name}.py"))
    return said_of_program(path, keep / name, python)


def cases_of(folder: Path) -> list[Case]:
    """The programs and pairs of a round, with their truths."""
    truth = json.loads((folder / "truth.json").read_text())
    return [case for kind in truth.values() for case in kind]


def print_sheet(folder: Path, names: list[str], keep: Path, python: str) -> None:
    """Prints truth and explanation of each case, one below the other."""
    third = {path.stem for path in (folder / "programs_third").glob("*.py")}
    for case in cases_of(folder):
        is_meant = case["name"] in names if names else case["name"] not in third
        if not is_meant:
            continue
        print("=" * 100)
        for key in ("name", "kind", "same", "what", "line", "where", "fix"):
            if key in case:
                print(f"{key}: {case[key]}")
        print("-" * 100)
        print(said_of(case, folder, keep, python))


def print_table(folder: Path) -> None:
    """Prints the scores of a round, and every case that was not right at first sight."""
    judged: dict[str, dict[str, str]] = json.loads((folder / "judged.json").read_text())
    cases = cases_of(folder)
    missing = [case["name"] for case in cases if case["name"] not in judged]
    if missing:
        sys.exit(f"not judged: {', '.join(missing)}")
    print("| | cases | right | vague | wrong | wrong and sure | right line |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for title, key in (("at first sight", "first"), ("after the mends", "after")):
        for what in ("programs", "pairs"):
            ones = [judged[case["name"]] for case in cases if ("same" in case) == (what == "pairs")]
            if not ones:
                continue  # a round of pairs alone
            grades = Counter(one.get(key) or one["first"] for one in ones)
            lined = [one["line"] for one in ones if "line" in one and key == "first"]
            lines = f"{lined.count('right')} of {len(lined)}" if lined else "-"
            row = " | ".join(str(grades[grade]) for grade in GRADES)
            print(f"| {what} {title} | {grades.total()} | {row} | {lines} |")
    print("\n| case | truth | said at first sight | judged | after |\n|---|---|---|---|---|")
    for case in cases:
        one = judged[case["name"]]
        if one["first"] != "right":
            after = one.get("after", one["first"])
            print(f"| {case['name']} | {one['truth']} | {one['said']} | {one['first']} | {after} |")


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("round", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path, help="folder for the runs; a temporary one otherwise")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch_xla")
    parser.add_argument("--table", action="store_true", help="print the scores instead")
    arguments = parser.parse_args()
    if arguments.table:
        print_table(arguments.round)
        return
    with tempfile.TemporaryDirectory() as temporary:
        keep = arguments.keep or Path(temporary)
        print_sheet(arguments.round, arguments.names, keep, arguments.python)


if __name__ == "__main__":
    main()
