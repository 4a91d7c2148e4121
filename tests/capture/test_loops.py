"""The loop around a line, against Python's own syntax tree."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest

from xlagraph.capture.places.loops import loops_around

STANDARD = Path(sysconfig.get_path("stdlib"))
FILES = ["asyncio/base_events.py", "subprocess.py", "tokenize.py", "tarfile.py", "turtle.py"]


def oracle(text: str) -> dict[int, int]:
    """By line of a simple statement the innermost loop in its function."""
    found: dict[int, int] = {}

    def walk(node: ast.AST, loop: int) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            loop = 0
        if isinstance(node, ast.stmt) and loop and not hasattr(node, "body"):
            for line in range(node.lineno, (node.end_lineno or 0) + 1):
                found[line] = loop
        is_loop = isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        for name, value in ast.iter_fields(node):
            inner = node.lineno if is_loop and name == "body" else loop
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child, inner)

    walk(ast.parse(text), 0)
    return found


@pytest.mark.parametrize("name", FILES)
def test_it_is_that_of_the_syntax_tree(name: str) -> None:
    text = (STANDARD / name).read_text()
    lines = text.splitlines()
    expected = oracle(text)
    simple = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    assert len(expected) > 20
    found = loops_around(lines, simple)
    assert {line: found.get(line, 0) for line in simple} == {
        line: expected.get(line, 0) for line in simple
    }


def test_the_head_of_a_loop_is_in_it_and_other_blocks_are_not_loops() -> None:
    text = """\
for step, batch in enumerate(
    loader,
):
    train(batch)
else:
    sync()
async def main():
    async for x in y: sync()
    with a:
        while True:
            sync(); sync()
    sync()
for i in range(3):
    def inner():
        sync()
"""
    lines = text.splitlines()
    every = range(1, len(lines) + 1)
    found = loops_around(lines, every)
    assert found == {1: 1, 2: 1, 3: 1, 4: 1, 8: 8, 10: 10, 11: 10, 13: 13}


@pytest.mark.parametrize("text", ["", "for x in (", "  x\n y\n", '"""', "for x in y:\n\x00", "£"])
def test_what_is_no_python_has_none(text: str) -> None:
    assert loops_around(text.splitlines(), [1, 2]) in ({}, {1: 1})
