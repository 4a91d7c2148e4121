"""The loop and the branch around a line of a program, as Python's own parser sees them."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from real_modules import explained_run
from repository import ROOT

from xlagraph.facts.program.enclosing import ProgramText, early_end, enclosing
from xlagraph.message import SourceLine
from xlagraph.runs.causes.growth import AsLoop

FILES = sorted((ROOT / "examples").rglob("*.py")) + sorted(
    (ROOT / "xlagraph" / "runs").glob("*.py")
)
SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)


def yields(loop: ast.stmt) -> bool:
    """Whether a loop hands its turns on."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(loop))


def by_parser(tree: ast.Module) -> dict[int, tuple[int | None, int | None]]:
    """For the first line of each simple statement its loop, and the branch nearest in there."""
    found: dict[int, tuple[int | None, int | None]] = {}

    def visit(body: list[ast.stmt], loop: int | None, branch: int | None) -> None:
        for node in body:
            if isinstance(node, SIMPLE):
                found[node.lineno] = (loop, branch if loop else None)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                visit(node.body, None, None)
            elif isinstance(node, (ast.For, ast.While)):
                visit(node.body, None if yields(node) else node.lineno, None)
            elif isinstance(node, ast.If):
                visit(node.body, loop, node.lineno)
            elif isinstance(node, ast.With):
                visit(node.body, loop, branch)

    visit(tree.body, None, None)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_loops_and_branches_are_those_of_the_parser(file):
    text = file.read_text()
    lines = dict(enumerate(text.splitlines(), 1))
    for number, (loop, branch) in by_parser(ast.parse(text)).items():
        if " for " in lines[number]:
            continue  # a comprehension is a loop of its own
        found = enclosing({"f.py": lines}, [SourceLine("f.py", number, "f")])
        assert (found.loop.line if found else None) == loop, (number, lines[number])
        if found:
            assert (found.branch.line if found.branch else None) == branch, number


@pytest.mark.parametrize("hands_on", ["yield mix(x)", "again = yield mix(x)"])
def test_a_loop_that_yields_leaves_it_to_the_loop_that_it_feeds(hands_on):
    text = f"""\
def __iter__(self):
    for x in self.loader:
        x = self.erase(x)
        {hands_on}
for x in loader:
    step(x)
"""
    program = {"f.py": dict(enumerate(text.splitlines(), 1))}
    frames = [SourceLine("f.py", 3, "__iter__"), SourceLine("f.py", 6, "<module>")]
    found = enclosing(program, frames)
    assert found is not None
    assert found.loop.line == 5
    assert enclosing(program, frames[:1]) is None


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("loss = f()\n    if loss < tol:\n        break", 3),
        ("if loss < tol:\n        log(loss)\n        break", 2),
        ("for y in x:\n        if y:\n            break", None),
        ("for y in x:\n        g(y)\n    if loss < tol:\n        break", 4),
        ("if loss < tol:\n        continue", None),
    ],
)
def test_a_loop_ends_early_at_a_break_of_its_own(body, line):
    text = f"for x in xs:\n    {body}\ndone()\nif x:\n    break"
    program = {"f.py": dict(enumerate(text.splitlines(), 1))}
    found = early_end(program, SourceLine("f.py", 1, "f"))
    assert (found.line if found else None) == line


def test_the_loop_of_a_caller_counts_where_the_function_has_none():
    program = {
        "f.py": {
            1: "def cell(x):",
            2: "    return x * 2",
            5: "def run(xs):",
            6: "    for x in xs:",
            7: "        x = cell(x)",
        }
    }
    stack = [SourceLine("f.py", 2, "cell"), SourceLine("f.py", 7, "run")]
    found = enclosing(program, stack)
    assert found == (SourceLine("f.py", 6, "run"), None)
    del program["f.py"][6]
    assert enclosing(program, stack) is None, "the line between was not stored"
    assert enclosing({}, stack) is None


@pytest.mark.parametrize(
    ("above", "place", "short"),
    [
        ("for k in range(n):", -1, "A loop or a list has another length"),
        ("if grad > limit:", 0, "a branch in a loop is taken more or less often"),
    ],
)
def test_a_loop_of_another_length_is_told_at_its_head(above, place, short):
    explained = explained_run(ROOT / "fixtures" / "pairs" / "unrolled_loop")
    (problem,) = explained.problems
    line = problem.cause.place.line
    program = {
        line.line - 2: "for p in ps:",
        line.line - 1: f"    {above}",
        line.line: " " * 8 + "x()",
    }
    members = [node for node in explained.graphs if node.digest in problem.graphs]
    told = AsLoop(ProgramText({line.file: program}), members)(problem.cause, members)
    assert told.place.line.line == line.line + place
    assert str(told.short) == short


def test_the_loop_of_the_steps_is_not_the_one_of_another_length():
    explained = explained_run(ROOT / "fixtures" / "pairs" / "unrolled_loop")
    (problem,) = explained.problems
    line = problem.cause.place.line
    program = {line.line - 1: "for step in range(n):", line.line: "    x()"}
    loops = frozenset({(line.file, line.line - 1)})
    told = AsLoop(ProgramText({line.file: program}, loops), ())(problem.cause, explained.graphs)
    assert told.place.line == line


@pytest.mark.parametrize(("function", "is_read"), [("", True), ("elsewhere", False)])
def test_a_loop_that_ends_by_a_value_is_told_where_it_reads_it(function, is_read):
    explained = explained_run(ROOT / "fixtures" / "pairs" / "unrolled_loop")
    (problem,) = explained.problems
    line = problem.cause.place.line
    program = {
        line.line + 1: "for k in range(n):",
        line.line + 2: "    if gap < tol:",
    }
    here = line._replace(line=line.line + 2, function=function or line.function)
    graph = replace(explained.graphs[0], sync_kind="value", call_site=here)
    told = AsLoop(ProgramText({line.file: program}), (graph,))(problem.cause, explained.graphs)
    assert (told.place.line == here) == is_read
