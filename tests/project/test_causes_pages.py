"""docs/causes is what the rules say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_pages_are_those_that_the_rules_make():
    spec = importlib.util.spec_from_file_location("make_causes", DOCS / "make_causes.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    there = {file.name: file.read_text() for file in (DOCS / "causes").glob("*.md")}
    assert there == maker.pages(), "run: python docs/make_causes.py"
