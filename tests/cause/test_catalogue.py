"""Every kind of cause that the detectors can name is in docs/causes.md, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "causes.md").read_text()
DOCUMENTED = {
    kind
    for line in DOCUMENT.splitlines()
    if line.startswith("### ")
    for kind in re.findall(r"`([a-z-]+)`", line)
}
NOT_CAUSES = {"first-graph", "same-graph", "unexplained"}


def test_kinds_in_the_scenarios_are_documented():
    for path in (ROOT / "examples" / "scenarios").glob("[!_]*.py"):
        kinds = re.search(r"^Kind: (.+)$", path.read_text(), re.MULTILINE)[1]
        assert set(kinds.split(" + ")) <= DOCUMENTED | {"none"}, path.name


def test_scenarios_named_are_there_and_all_are_named():
    programs = {p.stem for p in (ROOT / "examples" / "scenarios").glob("[!_]*.py")}
    named = {
        name
        for text in re.findall(r"Scenarios?:([^.]*)\.", DOCUMENT)
        for name in re.findall(r"`([a-z_]+)`", text)
    }
    assert named <= programs
    assert programs - named <= {"stable", "bucket_fixed"}


def test_kinds_in_the_code_are_documented():
    sources = "".join(p.read_text() for p in (ROOT / "xlagraph" / "cause").glob("*.py"))
    in_code = set(re.findall(r'kind(?:=|, \w+ = |\s*=\s*)"([a-z-]+)"', sources))
    in_code |= set(re.findall(r'kind="([a-z-]+)" if', sources))
    assert in_code - NOT_CAUSES <= DOCUMENTED
