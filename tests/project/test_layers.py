"""Imports point one way: each package may use those before it in the pipeline only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "xlagraph"

# From left to right: each part may import, at run time, itself and what its line names.
MODULES = {"errors", "graph", "hlo", "canon", "diff"}
CAUSES = MODULES | {"tensors", "message", "cause"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "patterns": set(),
    "strings": set(),
    "limits": {"errors"},
    "content": {"errors", "limits"},
    "tensors": set(),
    "figures": set(),
    "message": {"figures", "tensors"},
    "graph": {"hlo"},  # metadata is read when it is asked for
    "wire": {"errors"},
    "hlo": {"content", "errors", "graph", "patterns", "wire"},
    "canon": {"hlo", "graph", "errors", "patterns"},
    "diff": {"canon", "graph", "errors", "hlo"},
    "evaluate": {"canon", "diff", "errors", "graph", "hlo", "patterns"},
    "collectives": {"canon", "graph", "hlo", "patterns"},
    "run": {"errors", "limits", "tensors", "wire"},
    "capture": {"run", "errors", "figures", "limits", "tensors", "wire"},
    "cause": CAUSES,
    "facts": CAUSES,
    "rules": CAUSES | {"facts"},
    "explain": CAUSES | {"evaluate", "facts", "rules"},
    "version": set(),
    "workers": {"errors", "limits", "version"},
    "runs": CAUSES
    | {"collectives", "facts", "rules", "explain", "limits", "run", "version", "workers"},
    "ranks": CAUSES | {"collectives", "facts", "figures", "run", "runs", "patterns"},
    "catalogue": {"cause", "errors", "explain", "ranks", "runs", "streams"},
    "export": {"graph", "errors"},
    "output": {"errors"},
    "inputs": MODULES | {"cause", "message", "run", "runs"},
    "watch": {"capture", "figures", "run", "runs", "terminal"},
    "terminal": CAUSES | {"collectives", "explain", "ranks", "runs"},
    "report": CAUSES | {"explain", "facts", "figures", "ranks", "run", "runs", "streams"},
    "streams": {
        "strings",  # a sibling: it knows no HLO
        *("capture", "cause", "content", "errors", "message", "tensors", "terminal"),
    },
    "cli": {
        "workers",
        *("canon", "capture", "catalogue", "diff", "errors", "explain", "export", "hlo"),
        *(
            "inputs",
            "limits",
            "message",
            "output",
            "ranks",
            "report",
            "run",
            "runs",
            "streams",
        ),
        "terminal",
    },
    "__main__": {"cli"},
}


def _files() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            found.append((part, path))
    return found + [("cli", path) for path in sorted((ROOT / "cli").glob("*.py"))]


def _imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"xlagraph.{alias.name}" for alias in node.names]
                if node.module == "xlagraph"
                else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("xlagraph.")}
    return parts


@pytest.mark.parametrize(
    ("part", "path"), _files(), ids=lambda value: value.stem if isinstance(value, Path) else value
)
def test_imports_point_left(part: str, path: Path) -> None:
    assert part in ALLOWED, f"{part} is not placed in the pipeline: add it to ALLOWED"
    assert _imported_parts(path) <= ALLOWED[part] | {part}


INSIDE = {
    "capture": ("host", "places", "xla_dump", "tensors", "steps"),
    "facts": (
        "program",
        "values",
        "pieces",
        "calls",
        "training",
        "layers",
        "distributed",
        "shapes",
        "steps",
    ),
    "runs": ("steps", "graphs", "pairs", "kinds", "model", "causes", "by_design"),
}
"""Folders and files of a part, in the order in which they may use each other; the rest uses all."""


def _needs_at_run_time(path: Path) -> set[str]:
    """Modules that a file imports, but for those that only its types name."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    return {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }


@pytest.mark.parametrize(
    ("part", "folder"), [(part, folder) for part, folders in INSIDE.items() for folder in folders]
)
def test_imports_within_a_part_point_left(part: str, folder: str) -> None:
    folders = INSIDE[part]
    allowed = folders[: folders.index(folder) + 1]
    place = PACKAGE / part / folder
    for path in sorted(place.glob("*.py")) or [place.with_suffix(".py")]:
        needed = {
            name.split(".")[2]
            for name in _needs_at_run_time(path)
            if name.startswith(f"xlagraph.{part}.")
        }
        assert needed <= set(allowed), path.name


@pytest.mark.parametrize("part", ["evaluate", "explain", "rules", *INSIDE])
def test_a_folder_can_be_taken_in(part: str) -> None:
    for folder in (PACKAGE / part, *(PACKAGE / part).iterdir()):
        assert len(list(folder.glob("*.py"))) <= 20, folder.name


def test_a_file_stays_readable() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for _, path in _files()
        if (lines := len(path.read_text().splitlines())) > 500
    }
    assert not long


def test_patterns_of_python_3_11_are_left_to_a_library_before() -> None:
    """``re`` of Python 3.10 refuses possessive quantifiers, which no other version tells."""
    possessive = re.compile(r"(?<!\\)[*+?}]\+(?!\])")
    for _, path in _files():
        tree = ast.parse(path.read_text())
        if not any(
            isinstance(node, ast.Import) and node.names[0].name == "re" for node in tree.body
        ):
            continue
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re."):
                for node in ast.walk(call):
                    text = node.value if isinstance(node, ast.Constant) else ""
                    text = text.decode() if isinstance(text, bytes) else text
                    assert not (isinstance(text, str) and possessive.search(text)), (
                        f"{path}:{node.lineno}: from xlagraph.patterns import re"
                    )
