"""Real modules and runs for tests and benchmarks: the committed captures, dumps and pairs."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from xlagraph.hlo import open_entries, read_module
from xlagraph.run.reader import read_run

if TYPE_CHECKING:
    from xlagraph.graph import Module
    from xlagraph.runs.model import RunExplanation

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
RUNS = FIXTURES / "runs"


@cache
def explained_run(folder: Path) -> RunExplanation:
    """The explanation of a committed run, worked out once for all tests of a process."""
    from xlagraph.runs.explain import explain_run

    return explain_run(read_run(folder))


@lru_cache
def graphs(run: str) -> tuple[Module, ...]:
    """The modules of a committed run in order of appearance (letters A, B, ...)."""
    from xlagraph.runs.explain import graph_order

    opened = read_run(RUNS / run)
    return tuple(
        read_module(opened.graph_text(record.digest), f"{run}:{letter}")
        for letter, record, _ in graph_order(opened)
    )


def graph(name: str) -> Module:
    """A module by run and letter: ``carry:E``."""
    run, _, letter = name.partition(":")
    return graphs(run)[ord(letter) - ord("A")]


def real_texts() -> dict[str, str]:
    """Every committed real module, by the name of its file and its place in it."""
    found = {}
    for folder in sorted((*(FIXTURES / "pairs").iterdir(), *(FIXTURES / "runs").iterdir())):
        run = read_run(folder)
        found.update({f"{folder.name}:{d[:6]}": run.graph_text(d) for d in run.digests()})
    files = [*(FIXTURES / "module_pairs").glob("*.hlo.gz"), *(FIXTURES / "corpus").glob("*hlo*.gz")]
    for path in sorted(files):
        for entry in open_entries(str(path)).entries:
            if entry.form == "hlo":
                found[f"{path.name}:{entry.ordinal}"] = entry.source().text
    return found
