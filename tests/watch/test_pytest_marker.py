"""The pytest marker in sessions of its own: one process, several tests, one device."""

import re
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.torch_xla,
    pytest.mark.skipif(find_spec("torch_xla") is None, reason="needs the capture extra"),
]

HEAD = """
import pytest, torch, torch_xla

model = None

def step(rows, scale=None):
    global model
    model = model or torch.nn.Linear(4, 4).to("xla")
    loss = model(torch.ones(rows, 4).to("xla")).sum()
    if scale:
        loss = loss * scale
    torch_xla.sync()
"""

SESSION = """
def test_uses_the_device_first():
    for k in range(4):
        step(2)
        step(2, scale=3)

@pytest.mark.xlagraph
def test_stable():
    for _ in range(6):
        step(2)

@pytest.mark.xlagraph
def test_new_sizes():
    for k in range(5):
        step(11 + k)

@pytest.mark.xlagraph
def test_two_old_graphs_in_turn():
    for k in range(6):
        step(2, scale=k % 2 * 3)

@pytest.mark.xlagraph
def test_one_new_graph_late():
    for k in range(8):
        step(2 if k != 5 else 9)

@pytest.mark.xlagraph(max_graphs=1, after_step=0)
def test_no_warm_up_allowed():
    step(21)
    x = torch.ones(22, device="xla").sort()[0].cumsum(0)
    torch_xla.sync()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory, run_in):
    """Name of each test of the session: the report of its failure, "" if it passed."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "test_training.py").write_text(HEAD + SESSION)
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-rA", "test_training.py")
    done = run_in(folder, *command, TMPDIR=str(folder), COLUMNS="200")
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("xlagraph-*")), "temporary folders are left"
    found = dict.fromkeys(re.findall(r"^PASSED \S+::(\w+)", done.stdout, re.MULTILINE), "")
    parts = re.split(r"^_+ (test_\w+) _+$", done.stdout.split("= PASSES =")[0], flags=re.MULTILINE)
    errors = ["\n".join(re.findall(r"^E +(.*)$", part, re.MULTILINE)) for part in parts[2::2]]
    return found | dict(zip(parts[1::2], errors, strict=True))


def test_a_stable_test_passes_whatever_ran_before(told):
    assert told["test_uses_the_device_first"] == ""
    assert told["test_stable"] == ""


def test_an_unstable_test_is_told_its_cause(told):
    said = told["test_new_sizes"]
    assert "3 graphs ran from step 2 on, 1 allowed; 3 compiles" in said
    assert "4 compiles beyond warm-up" in said
    assert "input-shape" in said
    assert "Stable" not in said


def test_graphs_from_before_count_by_their_size(told):
    said = told["test_two_old_graphs_in_turn"]
    assert "2 graphs ran from step 2 on, 1 allowed; 0 compiles" in said
    assert "the steps change between graphs compiled before" in said


def test_one_graph_late(told):
    said = told["test_one_new_graph_late"]
    assert "2 graphs ran from step 2 on, 1 allowed; 1 compile " in said
    assert "1 compile beyond warm-up" in said


def test_a_failure_that_looks_like_warm_up_says_so(told):
    said = told["test_no_warm_up_allowed"]
    assert "2 graphs ran from step 0 on, 1 allowed; 2 compiles" in said
    assert "They look like warm-up" in said
