"""The line that reads a number of which a size is made, from records and the program's text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.shapes.sizes import PYTHON_SIZE
from xlagraph.run.records import Frame
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.read_sizes import with_reads
from xlagraph.runs.steps.spent import Spent

FILE = "t.py"
TEXT = """def nodes_of(index):
    return int(index.max()) + 1
def loops(index):
    n = nodes_of(index)
    loop = torch.arange(n, device=index.device)
    value = index.sum().item()
    print(value)
    width: int = int(index.max())
    return x[:, :width]
"""
NESTED = (Frame(FILE, 2, "nodes_of"), Frame(FILE, 4, "loops"))
SLICED = (Frame(FILE, 8, "loops"),)
LOGGED = (Frame(FILE, 6, "loops"),)


def every(steps, *stacks):
    """The same reads in several steps."""
    return dict.fromkeys(steps, stacks)


def read_at(reads, *, kind=PYTHON_SIZE, steps=(1, 2, 3), expected=False):
    """The line named for a group of graphs of some steps; `reads`: step to the stacks of reads."""
    nodes = [SimpleNamespace(digest=str(step), step=step) for step in steps]
    syncs = [
        SimpleNamespace(kind="value", step=step, call_site=stack)
        for step, stacks in reads.items()
        for stack in stacks
    ]
    digests = tuple(node.digest for node in nodes)
    group = CauseGroup(kind, say(), None, (), digests, 3, Spent(()), expected, proved=True)
    program = ProgramText({FILE: dict(enumerate(TEXT.splitlines(), 1))})
    (found,) = with_reads([group], nodes, [SimpleNamespace(syncs=syncs)], program)
    return found.read


@pytest.mark.parametrize(
    ("stack", "line"),
    [(NESTED, SourceLine(FILE, 2, "nodes_of")), (SLICED, SourceLine(FILE, 8, "loops"))],
    ids=["returned", "sliced"],
)
def test_a_number_of_which_a_size_is_made_is_named_where_it_is_read(stack, line):
    assert read_at(every((1, 2, 3), stack, LOGGED)) == line


@pytest.mark.parametrize(
    "reads",
    [
        every((1, 2, 3), LOGGED),
        every((1, 2), NESTED),
        every((1, 2, 3), NESTED, SLICED),
        {},
    ],
    ids=["for a log", "not in each step", "two", "none"],
)
def test_reads_that_need_not_make_the_size_are_not_named(reads):
    assert read_at(reads) is None


def test_what_is_no_size_or_no_problem_comes_of_no_read():
    reads = every((1, 2, 3), NESTED)
    assert read_at(reads, kind=DTYPE) is None
    assert read_at(reads, expected=True) is None
    assert read_at(reads, steps=(1, 2)) is None
