"""What a value is called that goes from step to step with its gradients."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.runs.causes.carried import as_carried

FILE = "t.py"
LOOP = """def main():
    state = start()
    for x in batches:
        {before}
        {step}
        loss.backward(retain_graph=True)
"""
METHOD = """def chunk(self, x):
    y, self.hidden = self.model(x, self.hidden)
    loss(y).backward(retain_graph=True)
"""


def carried(text: str) -> tuple[int, str] | None:
    lines = dict(enumerate(text.splitlines(), 1))
    line = next(number for number, one in lines.items() if "backward" in one)
    found = as_carried([SourceLine(FILE, line)], ProgramText({FILE: lines})).carried
    return (found.line.line, found.name) if found else None


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        (LOOP.format(before="x = f(x)", step="pred, state = model(x, state)"), 5, "state"),
        (LOOP.format(before="y = f(x)", step="state = cell(x, before=state)"), 5, "state"),
        (METHOD, 2, "self.hidden"),
    ],
)
def test_the_statement_that_makes_the_next_state_is_found(text, line, name):
    assert carried(text) == (line, name)


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format(before="state = start()", step="pred, state = model(x, state)"),  # begun anew
        LOOP.format(before="x = f(x)", step="pred, state = model(x, other)"),
        LOOP.format(before="a = f(a)", step="b = g(b)"),  # one of two
        METHOD.replace("self.model(x, self.hidden)", "self.model(x)"),
    ],
)
def test_where_no_one_variable_is_carried_none_is_named(text):
    assert carried(text) is None


def by_itself(statement: str) -> tuple[int, str] | None:
    """What a statement elsewhere carries, as a loss does that keeps an average."""
    lines = {3: "def main():", 4: "    loss.backward(retain_graph=True)", 9: f"        {statement}"}
    program = ProgramText({FILE: lines})
    found = as_carried([SourceLine(FILE, 4)], program, [SourceLine(FILE, 9)]).carried
    return (found.line.line, found.name) if found else None


@pytest.mark.parametrize(
    "statement",
    [
        "self.mean = self.decay * self.mean + (1 - self.decay) * now",
        "self.mean = torch.lerp(self.mean, now, 0.1)",
        "self.mean += 0.1 * now",
    ],
)
def test_an_attribute_that_is_computed_from_itself_is_carried(statement):
    assert by_itself(statement) == (9, "self.mean")


@pytest.mark.parametrize(
    "statement",
    [
        "self.mean = self.decay * self.mean.detach() + (1 - self.decay) * now",
        "self.mean = self.decay * now",
        "self.total += now.detach()",
        "mean = 0.9 * self.mean + 0.1 * now",
    ],
)
def test_what_is_detached_or_made_of_others_is_not_carried(statement):
    assert by_itself(statement) is None
