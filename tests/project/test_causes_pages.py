"""docs/causes is what the rules say."""

from __future__ import annotations

from repository import ROOT, script


def test_the_pages_are_those_that_the_rules_make():
    maker = script("docs/make_causes.py")
    there = {file.name: file.read_text() for file in (ROOT / "docs" / "causes").glob("*.md")}
    assert there == maker.pages(), "run: python docs/make_causes.py"
    assert not any("\ue000" <= c <= "\uf8ff" for text in there.values() for c in text)
