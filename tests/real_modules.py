"""Real modules for tests: graphs of the committed captures, smallest first."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from xlagraph.hlo import read_module
from xlagraph.run.reader import read_run

if TYPE_CHECKING:
    from xlagraph.graph import Module

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "fixtures" / "runs"


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
