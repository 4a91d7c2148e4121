"""One number that is baked in at several lines is one cause; another number is another one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from real_modules import RUNS, explained_run
from written_runs import write

from xlagraph.cause.verdict import Place
from xlagraph.message import Change, SourceLine, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.alike import follows_size, worded_alike
from xlagraph.runs.beside import of_same_words
from xlagraph.runs.reasons import Reason
from xlagraph.runs.second import key_of

END = 20


def step(first, second):
    """Two tables, each taken at a place of its own, at two lines of the program."""

    def at(line):
        return f'metadata={{op_type="xla__select" source_file="train.py" source_line={line}}}'

    return f"""HloModule step

ENTRY %main (x: f32[90], y: f32[90]) -> f32[1] {{
  %x = f32[90]{{0}} parameter(0)
  %y = f32[90]{{0}} parameter(1)
  %s = f32[1]{{0}} slice(f32[90]{{0}} %x), slice={{[{first}:{first + 1}]}}, {at(12)}
  %t = f32[1]{{0}} sine(f32[1]{{0}} %s), {at(12)}
  %u = f32[1]{{0}} slice(f32[90]{{0}} %y), slice={{[{second}:{second + 1}]}}, {at(14)}
  %v = f32[1]{{0}} cosine(f32[1]{{0}} %u), {at(14)}
  ROOT %z = f32[1]{{0}} add(f32[1]{{0}} %t, f32[1]{{0}} %v)
}}
"""


def told(folder, places):
    (found,) = write(folder, [(END, step(*pair)) for pair in places]).problems
    assert (found.kind.id, found.proved) == ("python-index", True)
    return found


@pytest.mark.parametrize("apart", [0, 1])
def test_a_loop_index_at_two_lines_is_one_cause(tmp_path, apart):
    found = told(tmp_path, [(k, k + apart) for k in range(3, 9)])
    assert (found.further, found.frequent) == ((), ())
    assert {found.place.line.line, *(line.line for line in found.alike)} == {12, 14}
    assert str(found.same_number).startswith("The number moves alike at line")


@pytest.mark.parametrize(
    "places",
    [
        [(k, 40 - k) for k in range(3, 9)],
        [(k, 3 * k) for k in range(3, 9)],
        [(3, 7), (4, 8), (5, 20), (6, 21), (7, 40)],
    ],
    ids=["down", "faster", "jumps"],
)
def test_an_index_that_moves_otherwise_is_another_one(tmp_path, places):
    found = told(tmp_path, places)
    assert found.alike == ()
    assert len(found.further) == 1


def cause(kind, line, old, new, *, short="", function="step"):
    """A cause in which a number became another one."""
    place = Place(SourceLine("train.py", line, function))
    return SimpleNamespace(
        kind=kind,
        place=place,
        lines=[place.line],
        title=say(Change(str(old), str(new))),
        short=say(short),
    )


def graph(digest, *causes):
    outcome = SimpleNamespace(causes=causes, proved=True)
    return SimpleNamespace(digest=digest, explanation=outcome, warm_up=False)


@pytest.mark.parametrize(
    ("numbers", "follows"),
    [
        ([(0.3125, 0.25), (0.25, 0.4375), (0.4375, 0.375)], True),
        ([(2, 1), (1, 4), (4, 3)], True),
        ([(5, 4), (4, 7)], True),
        ([(25, 16)], True),
        ([(25, 17)], False),
        ([(0.3, 0.2), (0.2, 0.4), (0.4, 0.3)], False),
        ([(2, 1), (9, 4), (4, 3)], False),
    ],
    ids=["times", "less", "the same", "all pairs", "not quite", "its own", "its own once"],
)
def test_a_number_that_is_computed_of_a_size_is_no_cause_beside_it(numbers, follows):
    sizes = [(5, 4), (4, 7), (7, 6)]
    members = [
        graph(str(k), cause(PYTHON_SIZE, 5, *size), cause(CONSTANT_VALUE, 6, *number))
        for k, (size, number) in enumerate(zip(sizes, numbers, strict=False))
    ]
    first, other = members[0].explanation.causes
    assert follows_size(key_of(first), other, members) is follows
    assert not follows_size(key_of(other), first, members)


def test_another_number_in_one_graph_alone_does_not_show_that_it_follows():
    one = graph("a", cause(PYTHON_SIZE, 5, 8, 4), cause(CONSTANT_VALUE, 6, 6, 3))
    first, other = one.explanation.causes
    assert not follows_size(key_of(first), other, [one])


def told_at(*causes):
    nodes = [graph(str(k), *own) for k, own in enumerate(causes)]
    known = {
        node.digest: Reason(node.explanation.causes[0].kind, node.explanation.causes[0].place.line)
        for node in nodes
    }
    return {
        d: reason.line.line for d, reason in (known | of_same_words(nodes, known)).items()
    }, nodes


def test_one_call_at_two_lines_of_a_function_is_one_cause():
    first, second = (cause(INPUT_SHAPE, k, 5, 4 + k, short="values of unique") for k in (6, 7))
    lines, nodes = told_at([first], [second], [second], [first, second], [second])
    assert set(lines.values()) == {7}
    assert {one.place.line.line for one in worded_alike(second, nodes)} == {6, 7}


@pytest.mark.parametrize(
    "other",
    [
        cause(INPUT_SHAPE, 6, 5, 4, short="values of unique", function="other"),
        cause(INPUT_SHAPE, 6, 5, 4, short="elements that a mask keeps"),
        cause(PYTHON_SIZE, 6, 5, 4, short="values of unique"),
        cause(INPUT_SHAPE, 6, 5, 4),
    ],
    ids=["another function", "other words", "another kind", "no words"],
)
def test_what_is_done_elsewhere_or_otherwise_is_a_cause_of_its_own(other):
    first = cause(INPUT_SHAPE, 7, 5, 4, short="values of unique")
    lines, nodes = told_at([first], [first], [other], [other])
    assert set(lines.values()) == {6, 7}
    assert {one.place.line.line for one in worded_alike(first, nodes)} == {7}


def test_no_line_is_named_beside_itself() -> None:
    group = explained_run(RUNS / "demo").problems[0]
    assert group.elsewhere == ()
    assert not group.same_number
