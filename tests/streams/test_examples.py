"""The programs that are run on a GPU: there are enough, and each says what is in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from streams.test_real_programs import PROGRAMS, WRONG

from xlagraph.streams.model import Kind

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples" / "streams"


def programs(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, str]]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for other in ("seeds", "distributed"):
        sys.modules.pop(other, None)
    found: dict[str, tuple[Any, str]] = module.PROGRAMS
    return found


def test_every_program_has_its_log_among_the_fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        name: kind
        for file in ("seeds", "more", "correct")
        for name, (_, kind) in programs(file, monkeypatch).items()
    }
    assert set(kinds) == set(PROGRAMS)
    assert {name: kind for name, kind in kinds.items() if kind} == WRONG


def test_there_are_twenty_correct_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs("correct", monkeypatch)
    assert len(found) >= 20
    assert {kind for _, kind in found.values()} == {""}


@pytest.mark.parametrize("name", ["seeds", "more"])
def test_every_mistake_has_a_known_kind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {kind for _, kind in programs(name, monkeypatch).values()} - {""}
    assert kinds <= {str(kind) for kind in Kind}
    assert len(kinds) >= 2
