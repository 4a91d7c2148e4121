"""Every kind of cause that the detectors can name is in docs/causes.md, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "causes.md").read_text()
KINDS, SHOWN = {}, {}
"""By the kinds of each row: its text, and the fixtures named in its last cell."""
for line in DOCUMENT.splitlines():
    if re.match(r"\| `[a-z-]+`", line):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for kind in re.findall(r"`([a-z-]+)`", cells[0]):
            KINDS[kind] = line
            SHOWN[kind] = re.findall(r"`(\w+)`", cells[-1])
DOCUMENTED = set(KINDS)
PAIRS = {path.name.split(".")[0] for path in (ROOT / "fixtures" / "module_pairs").iterdir()}
EDITED = {"dead-code", "repeated-constants", "frontend-attributes", "header"}
"""Kinds that no real program here shows alone; test_verdicts edits real text for them."""
NOT_CAUSES = {"first-graph", "same-graph", "unexplained"}


def test_kinds_in_the_scenarios_are_documented():
    for path in (ROOT / "examples" / "scenarios").glob("[!_]*.py"):
        kinds = re.search(r"^Kind: (.+)$", path.read_text(), re.MULTILINE)[1]
        assert set(kinds.split(" + ")) <= DOCUMENTED | {"none", "same-graph"}, path.name


def test_fixtures_named_are_there_and_all_scenarios_are_named():
    programs = {p.stem for p in (ROOT / "examples" / "scenarios").glob("[!_]*.py")}
    named = {name for names in SHOWN.values() for name in names}
    assert named <= programs | PAIRS
    assert programs - named <= {"stable", "other_key", "late_evaluation", "two_step_kinds"}


def test_every_kind_is_shown_by_a_real_fixture():
    assert {kind for kind, names in SHOWN.items() if not names} == EDITED


def test_kinds_in_the_code_are_documented():
    sources = "".join(p.read_text() for p in (ROOT / "xlagraph" / "cause").glob("*.py"))
    in_code = set(re.findall(r'kind(?:=|, \w+ = |\s*=\s*)"([a-z-]+)"', sources))
    in_code |= set(re.findall(r'kind="([a-z-]+)" if', sources))
    assert in_code - NOT_CAUSES <= DOCUMENTED
