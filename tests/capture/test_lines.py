"""Source lines in graphs: whose they are, and that they change no graph."""

import json
from collections import Counter

import pytest

from xlagraph.capture.host.levels import LEVELS
from xlagraph.run.reader import read_run
from xlagraph.run.writer import digest_text
from xlagraph.runs.explain import explain_run

pytestmark = pytest.mark.torch_xla
VARIABLES = {"XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}

# Forward, backward and the optimizer are called from several lines, in turn.
SEVERAL_LINES = """
import json, os, torch, torch_xla
import torch_xla.debug.metrics as met
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def step(x):
    return model(x).pow(2).mean()
hashes, losses = [], []
for k in range(12):
    x = torch.ones(4, 8).to("xla")
    if k % 3 == 0:
        loss = step(x)
    elif k % 3 == 1:
        loss = \\
            step(x)
    else:
        loss = model(x).pow(
            2).mean()
    if k % 2:
        loss.backward()
        optimizer.step()
    else:
        (loss.backward())
        (optimizer.step())
    hashes.append(torch_xla._XLAC._get_graph_hash([loss, *model.parameters()]).hex())
    optimizer.zero_grad()
    torch_xla.sync()
    losses.append(loss.item())
compiled = met.counter_value("UncachedCompile"), met.counter_value("CachedCompile")
print(json.dumps([compiled, hashes, losses, {k: v for k, v in os.environ.items() if "DEBUG" in k}]))
"""


def ran(run_program, **variables):
    done = run_program(SEVERAL_LINES, **variables)
    return json.loads(done.stdout), done.stderr


def test_lines_change_no_key_and_cause_no_compile(run_program, tmp_path):
    plain, _ = ran(run_program)
    for level in LEVELS:
        found, _ = ran(run_program, XLAGRAPH=level, XLAGRAPH_DIR=level)
        assert found == plain
    theirs, _ = ran(run_program, **VARIABLES)
    assert theirs[0] == plain[0], "lines in the key would make it compile for each of them"
    assert theirs[1] != plain[1], "but the variables are"
    digests = [read_run(tmp_path / level).digests() for level in LEVELS]
    assert digests == digests[:1] * len(LEVELS)


@pytest.mark.parametrize("level", LEVELS)
def test_which_levels_have_lines(run_program, tmp_path, level):
    _, said = ran(run_program, XLAGRAPH=level)
    run = read_run(tmp_path / "xlagraph-run")
    (process,) = run.processes
    expected = level != "watch"
    assert (process.record.level, process.record.lines) == (level, expected)
    assert ("with source lines (XLAGRAPH=watch: without)" in said) == expected
    stored = [run.graph(digest) for digest in run.digests()]
    assert {("source_line=" in one.text) for one in stored} == {expected}
    assert {(one.proto is not None) for one in stored} == {expected}


@pytest.mark.parametrize(("value", "has_lines"), [("0", False), ("1", True)])
def test_variables_of_the_user_decide(run_program, tmp_path, value, has_lines):
    _, said = ran(run_program, XLAGRAPH="1", XLA_HLO_DEBUG=value)
    assert "source lines" not in said
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    assert process.record.lines == has_lines


IN_ONE_PROCESS = """
import torch, torch_xla, xlagraph
def is_on():
    return torch_xla._XLAC._get_ir_debug()
def step(rows):
    torch.ones(rows, 4, device="xla").exp()
    torch_xla.sync()
found = [is_on()]
with xlagraph.capture("watched", level="watch"):
    found.append(is_on())
    with xlagraph.capture("inner"):
        found.append(is_on())
        step(2)
    found.append(is_on())
    step(3)
found.append(is_on())
print(found)
"""


def test_lines_end_with_the_capture_that_wants_them(run_program):
    assert run_program(IN_ONE_PROCESS).stdout == "[False, False, True, False, False]\n"


# A view that changes no instruction, at a line of its own: the same module under another key.
ANOTHER_KEY = """
import torch, torch_xla
x, y = torch.randn(8, 8, device="xla"), torch.randn(8, 8, device="xla")
torch_xla.sync()
for k in range(6):
    a = x * 2.5 + y
    if k == 3:
        b = x.view(8, 8) * 3.5 + y
    else:
        b = x * 3.5 + y
    torch_xla.sync()
"""


def test_a_module_that_compiles_again_from_another_line_is_one_graph(run_program, tmp_path):
    run_program(ANOTHER_KEY, XLAGRAPH="1")
    run = read_run(tmp_path / "xlagraph-run")
    graphs = [graph.digest for graph in run.processes[0].graphs]
    assert sorted(Counter(graphs).values()) == [1, 2]
    (problem,) = [group for group in explain_run(run).groups if not group.expected]
    assert problem.kind.id == "same-graph"
    assert "In the key differ" in str(problem.title)


def test_what_a_digest_leaves_out():
    text = b"HloModule m\nENTRY e {\n  ROOT a = f32[] add(b, c), metadata={%s}%s\n}\n"
    lines = [b'op_name="x" source_file="a}\\".py" source_line=%d' % n for n in (1, 22)]
    plain = b"HloModule m\nENTRY e {\n  ROOT a = f32[] add(b, c)%s\n}\n"
    for rest in (b"", b', backend_config="{}"'):
        named = {digest_text(text % (one, rest)) for one in lines}
        assert named == {digest_text(plain % rest)}
    assert digest_text(plain % b"") != digest_text(plain % b', backend_config="{}"')
