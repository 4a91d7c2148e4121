"""What a value is called that goes from step to step with its gradients."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Cause
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.run.records import Frame
from xlagraph.runs.causes.carried import as_carried, carried_alone, carried_somewhere
from xlagraph.runs.causes.lists import _backward
from xlagraph.runs.kinds import GROWING_GRAPH

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


@pytest.mark.parametrize(
    ("statements", "name"),
    [
        (["self.slow = torch.lerp(self.slow, self.weight, 0.1)"], "self.slow"),
        (["loss = self.slow.sum()"], None),
        (["self.a = self.a * 2", "self.b = self.b * 2"], None),
        (["self.slow = torch.lerp(self.slow.detach(), self.weight, 0.1)"], None),
    ],
)
def test_what_growing_graphs_cite_tells_what_is_carried(statements, name):
    program = ProgramText({FILE: dict(enumerate(statements, 1))})
    lines = tuple(SourceLine(FILE, k, "advance") for k in range(1, len(statements) + 1))
    cause = SimpleNamespace(evidence=(SimpleNamespace(sources=lines),))
    found = carried_alone([cause], program)
    assert (found.carried.name if found else None) == name
    if found:
        nothing = frozenset()
        one = Cause(LIVE_TENSOR, say("a"), (), say(), 1.0, True, say(), False, nothing, nothing)
        told = found(one, [1, 2])
        assert (told.kind, told.place.line) == (GROWING_GRAPH, lines[0])
        assert "2 graphs, each of which is longer than the one before" in str(told.title)


AVERAGE = """class Average:
    {head}
    def update(self, model):
        for name, p in model.named_parameters():
            {statement}

def main():
    for x in batches:
        loss.backward()
        average.update(model)
"""


def somewhere(statement: str, head: str = "# of weights") -> tuple[int, str] | None:
    lines = dict(enumerate(AVERAGE.format(head=head, statement=statement).splitlines(), 1))
    found = carried_somewhere(SourceLine(FILE, 9, "main"), ProgramText({FILE: lines}))
    return (found.line.line, found.carried.name) if found and found.carried else None


def test_the_only_value_of_a_file_that_is_made_of_its_last_one_is_carried():
    made = "self.mean[name] = torch.lerp(self.mean[name], p, 0.1)"
    assert somewhere(made) == (5, "self.mean[name]")
    assert somewhere(made, "@torch.no_grad()") is None
    assert somewhere("self.mean[name] = torch.lerp(self.mean[name].detach(), p, 0.1)") is None
    two = f"{made}\n            self.norm = self.norm * 0.9 + p"
    assert somewhere(two) is None, "which of the two is not known"


ADAPT, QUERY = SourceLine("t.py", 48, "adapt"), SourceLine("t.py", 68, "main")


@pytest.mark.parametrize(
    ("calls", "ends", "line"),
    [
        ([ADAPT, QUERY], "main", 68),  # gradients of an inner step, then those of the step
        ([ADAPT, ADAPT._replace(line=50)], "main", 50),
        ([ADAPT, QUERY], "fit", None),
    ],
)
def test_the_pass_that_gets_longer_is_the_last_one_of_a_function(calls, ends, line):
    sketch = SimpleNamespace(saved={"f32[8]": 2}, passes=[((call,), 1) for call in calls])
    sync = SimpleNamespace(call_site=(Frame("t.py", 72, ends),))
    before = SimpleNamespace(sketch=SimpleNamespace(saved={"f32[8]": 1}))
    found = _backward(before, SimpleNamespace(sketch=sketch, sync=sync), Counter({"f32[8]": 1}))
    assert [one.line for one in found] == ([line] if line else [])
