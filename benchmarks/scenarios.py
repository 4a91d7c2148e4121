"""Runs every program of examples/scenarios for real and compares the cause named with the true one.

Each program says its true cause in its docstring (``Kind:``, two causes with ``+``, ``none``
for a program without a problem) and marks the line with ``# cause``; ``Line:`` names a file of a
library that the program's line leads to, or ``none``. The table goes to
standard output; the exit status is 1 when a cause, a line or a proof is wrong.

    python benchmarks/scenarios.py [--keep DIR] [--reuse] [NAME ...]
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from xlagraph.message import SourceLine
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.kinds import CHANGING_UPDATES, REPEATED_HOOK
from xlagraph.runs.model import CauseGroup, RunExplanation
from xlagraph.runs.pairs.outcome import Outcome

PROGRAMS = Path(__file__).resolve().parent.parent / "examples" / "scenarios"
TIMEOUT = 600


@dataclass(frozen=True, slots=True)
class Truth:
    """What a program says of itself."""

    path: Path
    kinds: tuple[str, ...]
    lines: tuple[int, ...]
    library: str
    ranks: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    truth: str
    reported: str
    line: str
    share: float
    proved: bool
    right: bool


def read_truth(path: Path) -> Truth:
    """Reads a program's header and its marked lines."""
    text = path.read_text()
    header = ast.get_docstring(ast.parse(text)) or ""
    fields = dict(re.findall(r"^(Kind|Line|Ranks): (.+)$", header, re.MULTILINE))
    kinds = () if fields["Kind"] == "none" else tuple(fields["Kind"].split(" + "))
    lines = tuple(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# cause"))
    return Truth(path, kinds, lines, fields.get("Line", ""), int(fields.get("Ranks", "1")))


def run_program(truth: Truth, folder: Path, python: str, *, lines: bool) -> None:
    """Runs a program under capture, once for each rank.

    Raises:
        subprocess.CalledProcessError: the program failed.
    """
    for rank in range(truth.ranks):
        subprocess.run(
            [python, str(truth.path)],
            env=os.environ | variables(truth, folder, rank, lines=lines),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            timeout=TIMEOUT,
        )


def variables(truth: Truth, folder: Path, rank: int, *, lines: bool) -> dict[str, str]:
    """The variables that one rank of a captured program has."""
    return {
        "XLAGRAPH": "2" if lines else "watch",
        "XLAGRAPH_DIR": str(folder),
        "XLAGRAPH_JOB": truth.path.stem,  # one job, although its ranks run in turn
        "XLAGRAPH_SUMMARY": "0",
        "PJRT_DEVICE": "CPU",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RANK": str(rank),
    }


def judge(truth: Truth, explained: RunExplanation) -> Row:
    """Compares what was reported with what is true.

    What a graph leaves out, updates or runs as a hook stands in the records: nothing is undone.
    """
    problems = [group for group in explained.groups if _is_told(group)]
    told = (SKIPPED_BLOCK, CHANGING_UPDATES, REPEATED_HOOK)
    bad = {d for group in problems if group.kind not in told for d in group.graphs}
    explanations = [n.explanation for n in explained.graphs if n.digest in bad and n.explanation]
    kinds = list(dict.fromkeys([g.kind.id for g in problems] + _further_kinds(explanations)))
    line = _line(truth, explained) if truth.kinds else ""
    proved = all(e.proved for e in explanations)
    return Row(
        truth.path.stem,
        " + ".join(truth.kinds) or "none",
        " + ".join(kinds) or "none",
        line,
        min((1 - e.unexplained_share for e in explanations), default=1.0),
        proved,
        set(kinds) == set(truth.kinds) and proved and not line.startswith("wrong"),
    )


def _is_told(group: CauseGroup) -> bool:
    """Whether its cause is named: a problem, or a change that is taken to be made on purpose."""
    return not group.expected or bool(group.meant)


def _failed(truth: Truth) -> Row:
    """The row of a program that did not run."""
    kinds = " + ".join(truth.kinds)
    return Row(truth.path.stem, kinds, "?", "", share=0, proved=False, right=False)


def _further_kinds(explanations: list[Outcome]) -> list[str]:
    """Kinds of causes behind the main one of a graph, and whether something is left over."""
    found = [cause.kind.id for e in explanations for cause in e.causes[1:] if not cause.expected]
    if any(e.unexplained_share or not e.causes for e in explanations):
        found.append("unexplained")
    return found


def _line(truth: Truth, explained: RunExplanation) -> str:
    """``yes``, ``library`` where only a library's line can be known, or what is wrong."""
    wrong = []
    for group in explained.groups:
        if not _is_told(group) or truth.library == "none":
            continue
        source = next(iter(_sources(group)), None)
        if source is None:
            wrong.append("none")
            continue
        through = source.called or source
        if truth.library and truth.library in through.file:
            continue
        if not (Path(source.file).name == truth.path.name and source.line in truth.lines):
            wrong.append(f"{Path(source.file).name}:{source.line}")
    if wrong:
        return "wrong: " + ", ".join(wrong)
    if truth.library:
        return "-" if truth.library == "none" else "library"
    return "yes" if truth.lines else "-"


def _sources(group: CauseGroup) -> tuple[SourceLine, ...]:
    return group.cause.lines if group.cause else tuple(filter(None, [group.place.line]))


def print_table(rows: list[Row]) -> None:
    """Prints the rows as a Markdown table."""
    print("| scenario | true cause | reported cause | right line | explained | proof holds | |")
    print("|---|---|---|---|---:|---|---|")
    for r in rows:
        proof = "-" if r.truth == "none" else "yes" if r.proved else "NO"
        share = "-" if r.truth == "none" else f"{r.share:.0%}"
        print(
            f"| {r.name} | {r.truth} | {r.reported} | {r.line or '-'} | {share} | {proof} "
            f"| {'right' if r.right else 'WRONG'} |"
        )
    right = sum(r.right for r in rows)
    print(f"\n{right} of {len(rows)} right.")


def main() -> int:
    """Runs the programs asked for, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path, help="folder for the runs; a temporary one otherwise")
    parser.add_argument("--reuse", action="store_true", help="explain kept runs again")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch_xla")
    parser.add_argument("--no-lines", action="store_true", help="capture at the level watch")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        keep = arguments.keep or Path(temporary)
        for path in sorted(PROGRAMS.glob("[!_]*.py")):
            if arguments.names and path.stem not in arguments.names:
                continue
            truth, folder = read_truth(path), keep / path.stem
            if arguments.no_lines:
                truth = replace(truth, library="none")
            if not (arguments.reuse and any(folder.glob("records-*.jsonl"))):
                try:
                    run_program(truth, folder, arguments.python, lines=not arguments.no_lines)
                except subprocess.CalledProcessError as error:
                    print(f"{path.name} failed:\n{error.stderr}", file=sys.stderr)
                    rows.append(_failed(truth))
                    continue
            rows.append(judge(truth, explain_run(read_run(folder))))
            print(rows[-1].name, "right" if rows[-1].right else "WRONG", file=sys.stderr)
    print_table(rows)
    return 0 if rows and all(row.right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
